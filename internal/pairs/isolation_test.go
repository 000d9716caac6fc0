package pairs_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// isolated has producers whose transactions see the database as it was when they began: what they cannot append in order
// is refused.
func isolated(s *stage, n int) act {
	levels := []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable}
	c := &crew{size: len(levels)}
	c.work = func(running context.Context, s *stage, writer, i int) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(running), clustertest.Patience)
		defer cancel()
		err := s.isolatedTransaction(ctx, levels[writer], fmt.Sprintf("isolated-%d-%d-%d", n, writer, i%5), i%5 != 4)
		var refused *pgconn.PgError
		if errors.As(err, &refused) && refused.Code == "40001" {
			return nil // its application tries again
		}
		return err
	}
	return act{
		begin: func(t *testing.T) {
			t.Helper()
			s.employ(t, c, 20)
		},
		end: func(t *testing.T) {
			t.Helper()
			done := c.count.Load()
			clustertest.Until(t, "isolated producers go on", func(context.Context) (bool, error) { return c.count.Load() >= done+20, nil }, nil)
			s.dismiss(t, c)
		},
	}
}

// isolatedTransaction looks at the outbox, and appends then.
func (s *stage) isolatedTransaction(ctx context.Context, level pgx.TxIsoLevel, stream string, commit bool) error {
	tx, err := s.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	var count int
	if err := tx.QueryRow(ctx, `SELECT partition_count FROM outbox_settings`).Scan(&count); err != nil {
		return err
	}
	entries, err := s.appendIn(ctx, tx, event(stream))
	if err != nil {
		return err
	}
	if err = s.conclude(ctx, tx, entries, commit); err != nil {
		s.Ledger.Failed(entries) // it was refused, or the pair has failed
	}
	return err
}
