package projection_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/projection"
)

var (
	errPoison = errors.New("this event cannot be digested")
	errNever  = errors.New("this event never can")
)

// sums adds up the amounts of each stream. An event of type poison fails until it is healed.
type sums struct {
	mu     sync.Mutex
	healed bool
	hook   func(context.Context, pgx.Tx, projection.Event) error
}

func (s *sums) Tables() []projection.Table {
	return []projection.Table{{Name: "sums", Stream: "account"}, {Name: "entries", Stream: "account"}}
}

func (s *sums) Define(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `
		CREATE TABLE IF NOT EXISTS sums (account text PRIMARY KEY, total bigint NOT NULL, events int NOT NULL, trail text NOT NULL);
		CREATE TABLE IF NOT EXISTS entries (account text, version bigint, happened timestamptz, PRIMARY KEY (account, version),
			weight int, CONSTRAINT light CHECK (weight < 100), sole int UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
	return err
}

func (s *sums) heal() { s.mu.Lock(); defer s.mu.Unlock(); s.healed = true }

func (s *sums) Apply(ctx context.Context, tx pgx.Tx, e projection.Event) error {
	s.mu.Lock()
	hook, healed := s.hook, s.healed
	s.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, tx, e); err != nil {
			return err
		}
	}
	var sole *int
	switch e.Type {
	case "poison":
		if !healed {
			return errPoison
		}
	case "never":
		return projection.Permanent(errNever)
	case "panic":
		panic("no events of this type, please")
	case "sole":
		sole = new(int)
	}
	_, err := tx.Exec(ctx, `INSERT INTO sums AS s VALUES ($1, $2::text::bigint, 1, md5($3))
		ON CONFLICT (account) DO UPDATE SET total = s.total + excluded.total, events = s.events + 1, trail = md5(s.trail || $3)`,
		e.Stream, string(e.Payload), fmt.Sprint(e.Version))
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO entries VALUES ($1, $2, $3, 1, $4)`, e.Stream, e.Version, e.OccurredAt, sole)
	return err
}

// bundle is a migrated database with a projector.
type bundle struct {
	pool     *pgxpool.Pool
	producer *outbox.Producer
	sums     *sums
	log      *recorder
}

func newBundle(t *testing.T) *bundle {
	t.Helper()
	producer, err := outbox.New(outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := pgxpool.ParseConfig(pgtest.Migrated(t, 8))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return &bundle{pool: pool, producer: producer, sums: &sums{}, log: &recorder{}}
}

func (b *bundle) config(mode projection.Mode) projection.Config {
	c := projection.Config{
		Projector: b.sums, Pool: b.pool, Mode: mode, BackoffBase: time.Millisecond, BackoffMax: 10 * time.Millisecond,
		PollInterval: 5 * time.Millisecond, SweepInterval: 50 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(b.log, nil)),
	}
	if mode != projection.Inline {
		c.Workers = 4
	}
	return c
}

func (b *bundle) make(t *testing.T, mode projection.Mode, changes ...func(*projection.Config)) *projection.Projection {
	t.Helper()
	config := b.config(mode)
	for _, change := range changes {
		change(&config)
	}
	p, err := projection.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// start runs the projection until the test ends or stop is called.
func (b *bundle) start(t *testing.T, p *projection.Projection) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		err := p.Run(ctx)
		if err != nil {
			b.log.fail(err)
		}
		ended <- err
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(stop)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(b.log.text())
		}
	})
	return stop
}

// events makes n events of a type with the amounts 1, 2, 3…
func events(stream, kind string, n int) []outbox.Event {
	all := make([]outbox.Event, n)
	for i := range all {
		all[i] = outbox.Event{StreamID: stream, Type: kind, Payload: fmt.Append(nil, i+1)}
	}
	return all
}

func (b *bundle) append(t *testing.T, events ...outbox.Event) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		_, err := b.producer.AppendTx(t.Context(), tx, events...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bundle) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (b *bundle) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// until waits until a query for one number gives it.
func (b *bundle) until(t *testing.T, want int, sql string, args ...any) {
	t.Helper()
	n := -1
	clustertest.Until(t, fmt.Sprintf("%s gives %d", sql, want), func(ctx context.Context) (bool, error) {
		if err := b.log.failure(); err != nil {
			return false, err
		}
		err := b.pool.QueryRow(ctx, sql, args...).Scan(&n)
		if err != nil && (strings.Contains(err.Error(), "42P01") || errors.Is(err, pgx.ErrNoRows)) {
			return false, nil // not there yet
		}
		return n == want, err
	}, func() string { return fmt.Sprintf("it gives %d", n) })
}

// clean wants no gaps, and a rebuild that is equal.
func clean(t *testing.T, p *projection.Projection) {
	t.Helper()
	report, err := p.Detect(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Gaps) > 0 {
		t.Errorf("gaps: %+v", report.Gaps)
	}
	integrity, err := p.CheckIntegrity(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !integrity.Equal {
		t.Errorf("integrity: %+v", integrity)
	}
}

func summary(t *testing.T, p *projection.Projection) projection.Summary {
	t.Helper()
	s, err := p.Summary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// recorder keeps a log.
type recorder struct {
	mu     sync.Mutex
	kept   strings.Builder
	failed error // what ended a run
}

func (r *recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = err
}

func (r *recorder) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept.Write(line)
}

func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept.String()
}
