package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrHorizonHidden is returned to a role without pg_read_all_stats, which does
// not see what other roles' sessions hold.
var ErrHorizonHidden = errors.New("the role lacks pg_read_all_stats")

// Horizon is what holds vacuum back. The outbox's tables turn over all their
// rows, so that they grow while it stands still.
type Horizon struct {
	// Transactions is how many transactions ago the oldest one began that must
	// still see its rows.
	Transactions int64
	// Age is how long the oldest open transaction, prepared ones included, has
	// been open; 0 when only standbys and replication slots hold back.
	Age time.Duration
}

// Horizon reads what holds vacuum back in this database. The error wraps
// ErrHorizonHidden when the role may not know.
func (s *Store) Horizon(ctx context.Context) (h Horizon, err error) {
	err = s.sql.Horizon.Row(ctx, s.db, nil).Scan(&h.Transactions, &h.Age)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrHorizonHidden
	}
	if err != nil {
		return Horizon{}, fmt.Errorf("read the horizon: %w", err)
	}
	return h, nil
}
