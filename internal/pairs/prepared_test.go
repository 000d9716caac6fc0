package pairs_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// prepared is a transaction that outlives its session.
type prepared struct {
	name    string
	entries []ledger.Entry
}

// prepare appends events and leaves their transaction prepared. It goes by a connection of its own.
func (s *stage) prepare(ctx context.Context, stream string, events int) (p prepared, err error) {
	conn, err := pgx.Connect(ctx, s.DatabaseURL)
	if err != nil {
		return p, err
	}
	defer conn.Close(ctx)
	tx, err := conn.Begin(ctx)
	if err != nil {
		return p, err
	}
	for range events {
		one, err := s.appendIn(ctx, tx, event(stream))
		if err != nil {
			return p, err
		}
		p.entries = append(p.entries, one...)
	}
	s.Ledger.Begin(p.entries)
	p.name = "pair-" + uuid.NewString()
	_, err = tx.Exec(ctx, `PREPARE TRANSACTION '`+p.name+`'`)
	return p, err
}

// settle ends it, and tells the ledger.
func (s *stage) settle(ctx context.Context, p prepared, commit bool) error {
	verb, tell := "COMMIT", func() { s.Ledger.Committed(p.entries, time.Now()) }
	if !commit {
		verb, tell = "ROLLBACK", func() { s.Ledger.Failed(p.entries) }
	}
	_, err := s.Pool.Exec(ctx, verb+` PREPARED '`+p.name+`'`)
	if err == nil {
		tell()
	}
	return err
}

// preparedOpen leaves a prepared transaction open: the order waits for it, and for it alone.
func preparedOpen(s *stage, n int) act {
	var p prepared
	return act{
		begin: func(t *testing.T) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
			defer cancel()
			s.quietly(t, func() { // so that just what comes behind it is held
				var err error
				if p, err = s.prepare(ctx, s.stream("prepared", n), 3); err != nil {
					t.Fatal(err)
				}
				s.open[p.name] = p.entries[0].Sequence
			})
		},
		end: func(t *testing.T) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
			defer cancel()
			for _, m := range s.tape(t) {
				if _, gone := s.forgotten[m.EventID]; !gone && m.Generation < replayStep && m.Sequence >= p.entries[0].Sequence {
					t.Errorf("sequence %d was delivered while %d was in a prepared transaction", m.Sequence, p.entries[0].Sequence)
					break
				}
			}
			if err := s.settle(ctx, p, true); err != nil {
				t.Fatal(err)
			}
			delete(s.open, p.name)
		},
	}
}

// overlap is a few producers who end every transaction by PREPARE. Each waits with the end of its transaction until a
// younger one is prepared, so that there is no moment without any.
type overlap struct {
	crew
	stream string

	mu      sync.Mutex
	younger chan struct{} // closed by the next one that is prepared
}

// born tells the others of a prepared transaction, and returns what tells it of the next one.
func (o *overlap) born() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.younger != nil {
		close(o.younger)
	}
	o.younger = make(chan struct{})
	return o.younger
}

const (
	// preparers is how many producers of prepared transactions there are.
	preparers = 3
	// preparedFor is the longest time that a transaction stays prepared: a resize holds younger ones up.
	preparedFor = time.Second
)

// transaction is one of a producer's: a third of them are rolled back.
func (o *overlap) transaction(running context.Context, s *stage, n, i int) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(running), clustertest.Patience)
	defer cancel()
	p, err := s.prepare(ctx, fmt.Sprintf("%s-%d-%d", o.stream, n, i%5), 1+rand.IntN(2))
	if err != nil {
		return err
	}
	timer := time.NewTimer(preparedFor)
	defer timer.Stop()
	select {
	case <-o.born():
	case <-timer.C:
	case <-running.Done():
	}
	return s.settle(ctx, p, i%3 != 0)
}

// preparedOverlapping has prepared transactions that overlap: the order follows each of them.
func preparedOverlapping(s *stage, n int) act {
	o := &overlap{stream: fmt.Sprintf("overlap-%d", n)}
	o.crew = crew{size: preparers, work: o.transaction}
	return act{
		begin: func(t *testing.T) {
			t.Helper()
			s.employ(t, &o.crew, 2*preparers)
		},
		end: func(t *testing.T) {
			t.Helper()
			if len(s.open) == 0 { // else another one holds the order
				e := s.committed(t, event(s.stream("amid", n)))
				clustertest.Until(t, "an event passes amid prepared transactions", func(ctx context.Context) (bool, error) {
					var there bool
					err := s.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM outbox WHERE global_sequence = $1)`, e[0].Sequence).Scan(&there)
					return err == nil && !there, err
				}, func() string { return s.waiting(t) })
			}
			s.dismiss(t, &o.crew)
		},
	}
}
