package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/internal/pg"
)

// Advance moves the watermark as far as is proven now, and stores it if it comes apart
// sequences further (1 or more) or something must be noted for later; it never waits for
// a transaction. What it returns may be relied on by statements sent afterwards,
// not by the ones before.
//
// The commit is asynchronous: a watermark that is lost in a crash is lost with
// everything after it in the log, and is proven again.
func (s *Store) Advance(ctx context.Context, apart int) (w delivery.Watermark, err error) {
	batch := &pgx.Batch{}
	s.sql.Advancing.Queue(batch, nil)
	s.sql.Advance.Queue(batch, pg.Args{"relation": s.events, "apart": apart}).QueryRow(func(row pgx.Row) error { return row.Scan(&w.Safe, &w.Highest, nil, nil) })
	if err := s.db.SendBatch(ctx, batch).Close(); err != nil {
		return delivery.Watermark{}, fmt.Errorf("advance the watermark: %w", err)
	}
	return w, nil
}

// Holder is a transaction that holds the watermark back: it has locked the
// events table for writing and has not ended.
type Holder struct {
	// PID is the server process, 0 for a prepared transaction; then GID names it.
	PID int
	GID string
	// State is empty and Age is 0 when the role may not see other roles' sessions
	// (pg_read_all_stats).
	Application, State string
	Age                time.Duration
}

// String names the holder for people.
func (h Holder) String() string {
	switch {
	case h.PID == 0:
		return fmt.Sprintf("prepared transaction %q (%s old)", h.GID, h.Age.Round(time.Millisecond))
	case h.State == "" && h.Application == "":
		return fmt.Sprintf("pid %d", h.PID)
	case h.State == "":
		return fmt.Sprintf("pid %d (%s)", h.PID, h.Application)
	default:
		return fmt.Sprintf("pid %d (%s, %s, transaction %s old)", h.PID, h.Application, h.State, h.Age.Round(time.Millisecond))
	}
}

// Stall is the watermark with what it waits for.
type Stall struct {
	delivery.Watermark
	// Waiting is the wait so far for the oldest position that is not decided; 0
	// when nothing is.
	Waiting time.Duration
	// Holders are the transactions waited for, the oldest first.
	Holders []Holder
}

// Watermark reads where the watermark stands and what holds it back.
func (s *Store) Watermark(ctx context.Context) (Stall, error) {
	rows, err := s.sql.Watermark.Rows(ctx, s.db, pg.Args{"relation": s.events})
	if err != nil {
		return Stall{}, fmt.Errorf("watermark: %w", err)
	}
	var (
		st               Stall
		pid              *int
		application, gid *string
		state            *string
		age              time.Duration
	)
	_, err = pgx.ForEachRow(rows, []any{&st.Safe, &st.Highest, &st.Waiting, &pid, &application, &state, &age, &gid}, func() error {
		if pid != nil || gid != nil {
			st.Holders = append(st.Holders, Holder{
				PID: valueOf(pid), GID: valueOf(gid), Application: valueOf(application), State: valueOf(state), Age: max(0, age),
			})
		}
		return nil
	})
	if err != nil {
		return Stall{}, fmt.Errorf("watermark: %w", err)
	}
	st.Waiting = max(0, st.Waiting)
	return st, nil
}

func valueOf[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

// Writers reads who may still write events, and stores nothing.
func (s *Store) Writers(ctx context.Context) (w delivery.Writers, err error) {
	batch := &pgx.Batch{}
	s.sql.Planning.Queue(batch, nil)
	s.sql.Writers.Queue(batch, pg.Args{"relation": s.events}).QueryRow(func(row pgx.Row) error { return row.Scan(&w.Highest, &w.Stored, &w.Open, &w.Recovered) })
	if err := s.db.SendBatch(ctx, batch).Close(); err != nil {
		return delivery.Writers{}, fmt.Errorf("look at the watermark: %w", err)
	}
	return w, nil
}
