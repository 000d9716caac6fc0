package replay_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/ops/replay"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/delivery/shape"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// bundle is an outbox without workers.
type bundle struct {
	pool  *pgxpool.Pool
	store *replay.Store
	last  int64 // stream sequence
}

func setup(t *testing.T, partitions int) *bundle {
	t.Helper()
	b := &bundle{pool: pgtest.Pool(t, pgtest.Migrated(t, partitions))}
	var err error
	if b.store, err = replay.New(t.Context(), b.pool, "public", pgstore.Relation{}); err != nil {
		t.Fatal(err)
	}
	return b
}

// reader reads events as workers with those transforms would.
func (b *bundle) reader(t *testing.T, transforms ...shape.Transform) *loop.EventReader {
	t.Helper()
	store, err := pgstore.New(t.Context(), b.pool, "public", pgstore.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := loop.NewEventReader(loop.Config{Transforms: transforms}, store, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (b *bundle) exec(t *testing.T, sql string, args ...any) int64 {
	t.Helper()
	tag, err := b.pool.Exec(t.Context(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return tag.RowsAffected()
}

func one[T any](t *testing.T, b *bundle, sql string, args ...any) T {
	t.Helper()
	var value T
	if err := b.pool.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// appendMany adds so many events of ten streams, one in twenty audit-only.
func (b *bundle) appendMany(t *testing.T, n int) {
	t.Helper()
	b.exec(t, `SELECT outbox_append_batch(array_agg('s-' || n % 10), array_agg('t-' || n % 3), array_agg('x'::bytea),
		published => array_agg(n % 20 <> 0), tenant_ids => array_agg('tenant-' || n % 2), topics => array_agg('topic-' || n % 4))
		FROM generate_series(1, $1) AS n`, n)
}

// publish settles everything that waits, as workers would.
func (b *bundle) publish(t *testing.T, where string) {
	t.Helper()
	n := b.exec(t, `WITH gone AS (DELETE FROM outbox WHERE dead_at IS NULL AND `+where+` RETURNING *),
		numbered AS (SELECT *, $1 + row_number() OVER (ORDER BY partition_key, global_sequence) AS place FROM gone)
		INSERT INTO outbox_deliveries (partition_key, lease_epoch, first_sequence, last_sequence, sequences,
			first_stream_sequence, last_stream_sequence, generations, message_count)
		SELECT partition_key, 1, min(global_sequence), max(global_sequence), array_agg(global_sequence ORDER BY global_sequence),
			min(place), max(place), jsonb_object_agg(global_sequence, generation) FILTER (WHERE generation > 0), count(*)
		FROM numbered GROUP BY partition_key`, b.last)
	b.last += 1000 * n
}

// create makes a replay by a test.
func (b *bundle) create(t *testing.T, spec replay.Spec) replay.Job {
	t.Helper()
	spec.Actor, spec.Reason = "test", "because"
	j, err := b.store.Create(t.Context(), spec, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (b *bundle) run(t *testing.T, id int64, cfg replay.RunConfig) replay.Job {
	t.Helper()
	j, err := b.store.Run(t.Context(), id, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// interrupt runs a replay until it has dealt with that many events.
func (b *bundle) interrupt(t *testing.T, id, after int64, cfg replay.RunConfig) replay.Job {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg.Progress = func(j replay.Job) {
		if j.Replayed >= after {
			cancel()
		}
	}
	j, err := b.store.Run(ctx, id, cfg)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("the run ended with %v", err)
	}
	return j
}

func all() replay.Spec { return replay.Spec{Selection: replay.Selection{All: true}} }

// queued lists the rows of the outbox as "sequence generation blocked".
func (b *bundle) queued(t *testing.T, where string) []string {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), `SELECT format('%s %s %s', global_sequence, generation, blocked) FROM outbox
		WHERE `+where+` ORDER BY global_sequence`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}
