package inbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/inbox"
)

// suspension is the database of a process that is suspended before its first commit.
type suspension struct {
	*pgxpool.Pool

	reached chan struct{}
	over    chan struct{}
}

// Begin opens a transaction that is suspended before its end.
func (s *suspension) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := s.Pool.Begin(ctx)
	return suspended{tx, s}, err
}

// BeginTx does the same.
func (s *suspension) BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error) {
	tx, err := s.Pool.BeginTx(ctx, options)
	return suspended{tx, s}, err
}

type suspended struct {
	pgx.Tx

	at *suspension
}

// Commit waits until the suspension is over.
func (s suspended) Commit(ctx context.Context) error {
	close(s.at.reached)
	<-s.at.over
	return s.Tx.Commit(ctx)
}

// A process that is suspended amid a transaction keeps no other from reading for longer than a handler may take.
func TestASuspendedProcessKeepsNobodyFromReading(t *testing.T) {
	t.Parallel()
	patient := func(c *inbox.Config) { c.HandlerTimeout = 100 * time.Millisecond }
	for name, do := range map[string]func(context.Context, *reading, *inbox.Inbox) error{
		"while it looks at the stream": func(ctx context.Context, r *reading, box *inbox.Inbox) error {
			c, err := inbox.NewConsumer(box, r.js, apply, quick())
			if err != nil {
				return err
			}
			return c.Run(ctx)
		},
		"while it forgets": func(ctx context.Context, _ *reading, box *inbox.Inbox) error { return box.Forget(ctx, "s") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReading(t, patient)
			r.publish(t, event("s", 1))
			end := r.run(t, quick(), apply)
			waitFor(t, r.pool, `SELECT count(*) = 1 FROM effects`)
			end()
			s := &suspension{Pool: r.pool, reached: make(chan struct{}), over: make(chan struct{})}
			box, err := inbox.New(s, inbox.Config{Name: "test", HandlerTimeout: 100 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- do(t.Context(), r, box) }()
			<-s.reached
			defer func() {
				close(s.over)
				if err := <-ended; err == nil {
					t.Error("the suspended process committed")
				}
			}()
			defer r.run(t, quick(), apply)()
			r.publish(t, event("s", 2))
			waitFor(t, r.pool, `SELECT count(*) = 2 FROM effects`)
		})
	}
}
