package gaps_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery/ops/gaps"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// suspension is the database of a command that is suspended, by Ctrl-Z or with its machine, before it commits a change.
type suspension struct {
	*pgxpool.Pool

	reached, over chan struct{}
}

// BeginTx implements pg.Conn.
func (s suspension) BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error) {
	tx, err := s.Pool.BeginTx(ctx, options)
	if options.AccessMode != pgx.ReadWrite {
		return tx, err
	}
	return suspended{tx, s}, err
}

type suspended struct {
	pgx.Tx

	at suspension
}

// Commit waits until the suspension is over.
func (s suspended) Commit(ctx context.Context) error {
	close(s.at.reached)
	<-s.at.over
	return s.Tx.Commit(ctx)
}

// A command that is suspended amid a change holds delivery up for a while, not for ever.
func TestASuspendedCommandDoesNotEndDelivery(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, 40)
	b.exec(t, `DELETE FROM outbox`)
	s := suspension{b.pool, make(chan struct{}), make(chan struct{})}
	store, err := gaps.New(t.Context(), s, "public", pgstore.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	repaired := make(chan error, 1)
	go func() {
		_, err := store.Repair(t.Context(), gaps.Repair{Actor: "test", Reason: "because"}, b.stream)
		repaired <- err
	}()
	<-s.reached
	defer func() {
		close(s.over)
		if err := <-repaired; err == nil {
			t.Error("the suspended command committed")
		}
	}()
	b.append(t, 20)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	relay := b.relay()
	go func() { ended <- relay.Run(ctx, b.keeper.Set()) }()
	clustertest.Until(t, "what was appended meanwhile is published", func(ctx context.Context) (done bool, err error) {
		err = b.pool.QueryRow(ctx, `SELECT count(*) = 19 FROM outbox_messages WHERE state = 'published'`).Scan(&done)
		return done, err
	}, nil)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
