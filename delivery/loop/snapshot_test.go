package loop_test

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/pgstore"
)

// watched is a pool that tells before it is used for a claim, a look at the
// watermark or a mark.
type watched struct {
	*pgxpool.Pool
	before func()
}

func (w watched) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	w.before()
	return w.Pool.SendBatch(ctx, b)
}

func (w watched) Acquire(ctx context.Context) (*pgxpool.Conn, error) {
	w.before()
	return w.Pool.Acquire(ctx)
}

// A lower sequence may be committed between any two steps of a relay, between the
// look for writers and the reading of rows above all: it is never passed over.
func TestACommitBetweenTwoStepsIsNotPassedOver(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.acquireAll(t, b.keeper)
	var want []string
	for step := range 6 {
		late, err := b.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		low := appendIn(t, late, "s-late")
		want = append(want, texts(low, b.append(t, "s-early", `1`))...)
		var steps atomic.Int64
		pool := watched{b.pool, func() {
			if steps.Add(1) == int64(step+1) {
				if err := late.Commit(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}}
		if b.store, err = pgstore.New(t.Context(), pool, "public", pgstore.Relation{}); err != nil {
			t.Fatal(err)
		}
		b.drain(t, b.relay(t, loop.Config{SweepInterval: time.Hour}))
		if steps.Load() <= int64(step) {
			t.Fatalf("the relay made %d steps", steps.Load())
		}
	}
	if got := b.sequences(t); !slices.Equal(got, want) {
		t.Errorf("stored %v, want %v", got, want)
	}
}

// sequences are those of the stored events, in the order of the stream.
func (b *bundle) sequences(t *testing.T) (got []string) {
	t.Helper()
	for _, m := range b.stored(t) {
		if sequence := m.Header.Get("Outbox-Sequence"); sequence != "" {
			got = append(got, sequence)
		}
	}
	return got
}

// So it is between any two statements of one look: rows are read after the look for writers.
func TestACommitAmidALookIsNotPassedOver(t *testing.T) {
	t.Parallel()
	// A look needs one table after the other. Whoever has locked it stops the look right before.
	for _, table := range []string{"outbox_watermark", "outbox_parked"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1)
			b.acquireAll(t, b.keeper)
			b.useOneSession(t)
			b.start(t, b.relay(t, loop.Config{SweepInterval: 200 * time.Millisecond}))
			want := texts(b.append(t, "s-first", `1`))
			b.until(t, `SELECT count(*) FROM outbox`, 0) // the partition is taken
			late := b.begin(t)
			low := appendIn(t, late, "s-late")
			want = append(want, texts(low, b.append(t, "s-early", `1`))...)
			lock := b.stopALook(t, table)
			if err := late.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := lock.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.until(t, `SELECT count(*) FROM outbox`, 0)
			if got := b.sequences(t); !slices.Equal(got, want) {
				t.Errorf("stored %v, want %v", got, want)
			}
		})
	}
}

// stopALook locks that table when a look waits for it that began behind what is there by now.
func (b *bundle) stopALook(t *testing.T, table string) pgx.Tx {
	t.Helper()
	waiting := `FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid) WHERE NOT l.granted AND l.relation = '` + table + `'::regclass`
	var now time.Time
	if err := b.pool.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&now); err != nil {
		t.Fatal(err)
	}
	for {
		lock := b.begin(t)
		if _, err := lock.Exec(t.Context(), `LOCK TABLE `+table+` IN ACCESS EXCLUSIVE MODE`); err != nil {
			t.Fatal(err)
		}
		b.until(t, `SELECT count(*) `+waiting, 1)
		var began time.Time
		if err := b.pool.QueryRow(t.Context(), `SELECT a.xact_start `+waiting).Scan(&began); err != nil {
			t.Fatal(err)
		}
		if began.After(now) {
			return lock
		}
		if err := lock.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// useOneSession has the store work in a session whose statements are prepared once they ran: preparing would wait for a
// lock, too.
func (b *bundle) useOneSession(t *testing.T) *pgxpool.Pool {
	t.Helper()
	one := b.pool.Config()
	one.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if b.store, err = pgstore.New(t.Context(), pool, "public", pgstore.Relation{}); err != nil {
		t.Fatal(err)
	}
	return pool
}

// A look that stops behind the watermark, as with its worker, keeps nobody else from moving that.
func TestALookThatStopsHoldsNoWatermark(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.acquireAll(t, b.keeper)
	b.useOneSession(t)
	l := b.keeper.Set().Held()[0]
	revision := b.takeRow(t, l)
	var told bool
	look := func() error {
		found, err := b.store.Claim(t.Context(), []delivery.Ask{{Lease: l, Revision: revision, After: math.MinInt64, Most: 1}},
			delivery.Limits{Total: 1, Watermark: true}, delivery.BehindStream)
		told = found.Advance
		return err
	}
	if err := look(); err != nil {
		t.Fatal(err)
	}
	late := b.begin(t)
	appendIn(t, late, "s-late")
	b.append(t, "s-early", `1`) // so that a candidate must be noted
	lock := b.begin(t)
	if _, err := lock.Exec(t.Context(), `LOCK TABLE outbox_parked IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	looked := make(chan error, 1)
	go func() { looked <- look() }()
	b.until(t, `SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'outbox_parked'::regclass`, 1)
	b.exec(t, `SELECT FROM outbox_watermark FOR UPDATE NOWAIT`)
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-looked; err != nil {
		t.Error(err)
	}
	if !told {
		t.Error("it does not tell that there is something to be noted")
	}
	if _, err := b.store.Advance(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	b.until(t, `SELECT count(*) FROM outbox_watermark WHERE candidate IS NOT NULL`, 1)
}
