package loop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/ops/resize"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// resize changes the number of partitions as the command does: everything is taken
// by one owner, and from the stream.
func (b *bundle) resize(t *testing.T, to int) {
	t.Helper()
	if _, err := b.resized(t, to); err != nil {
		t.Fatal(err)
	}
}

func (b *bundle) resized(t *testing.T, to int) (moved int, err error) {
	t.Helper()
	return b.resizedWith(t, to, func(pgx.Tx, partition.Count, int) error { return nil })
}

func (b *bundle) resizedWith(t *testing.T, to int, record func(pgx.Tx, partition.Count, int) error) (moved int, err error) {
	t.Helper()
	return b.resizedWithin(t, to, time.Minute, record)
}

func (b *bundle) resizedWithin(t *testing.T, to int, patience time.Duration, record func(pgx.Tx, partition.Count, int) error) (moved int, err error) {
	t.Helper()
	b.exec(t, `UPDATE outbox_partitions SET lease_until = clock_timestamp() - interval '1 s'`)
	ids := make([]partition.ID, b.count)
	for i := range ids {
		ids[i] = partition.ID(i)
	}
	owner := uuid.Must(uuid.NewV7())
	leases, err := b.leases.Acquire(t.Context(), owner, time.Minute, ids)
	if err != nil || len(leases) != b.count {
		t.Fatalf("acquired %d of %d partitions: %v", len(leases), b.count, err)
	}
	if err := b.relay(t, loop.Config{}).Take(t.Context(), leases); err != nil {
		t.Fatal(err)
	}
	if moved, err = resize.Move(t.Context(), b.pool, "public", pgstore.Relation{}, leases, partition.Count(to), patience, record); err == nil {
		b.count = to
	}
	if _, err := b.leases.Disown(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	b.keeper = b.newKeeper(t)
	return moved, err
}

// deliver has a new owner deliver everything.
func (b *bundle) deliver(t *testing.T) {
	t.Helper()
	b.succeed(t)
	b.drain(t, b.relay(t, loop.Config{}))
	b.until(t, `SELECT count(*) FROM outbox`, 0)
}

func (b *bundle) number(t *testing.T, sql string) (n int) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// A resize that the audit does not take changes nothing.
func TestAResizeWithoutItsAuditIsNone(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	b.exec(t, `SELECT count(outbox_append('s-' || n, 'thing.done', '{}')) FROM generate_series(1, 40) AS n`)
	full := errors.New("the audit is full")
	told := 0
	_, err := b.resizedWith(t, 8, func(_ pgx.Tx, from partition.Count, moved int) error {
		if told = moved; from != 4 {
			t.Errorf("it is told of %d partitions", from)
		}
		return full
	})
	if !errors.Is(err, full) || told == 0 {
		t.Errorf("%d rows moved: %v", told, err)
	}
	if n := b.number(t, `SELECT partition_count FROM outbox_settings`); n != 4 {
		t.Errorf("there are %d partitions", n)
	}
	b.deliver(t)
}

// A transaction that nobody ends keeps a resize from beginning, and no other producer from going on; the refusal names it.
func TestProducersGoOnBesideAResizeThatWaits(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	open, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer open.Rollback(context.WithoutCancel(t.Context()))
	if _, err := open.Exec(t.Context(), `SELECT outbox_append('s', 'thing.done', '{}')`); err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 1)
	go func() {
		_, err := b.resizedWithin(t, 8, 2*time.Second, func(pgx.Tx, partition.Count, int) error { return nil })
		refused <- err
	}()
	b.until(t, `SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'outbox'::regclass OR NOT granted AND relation = 'outbox_ready'::regclass`, 1)
	b.append(t, "other", `1`)
	select {
	case err = <-refused:
		t.Error("a producer waited until the resize was refused")
	default:
		err = <-refused
	}
	if !errors.Is(err, resize.ErrProducers) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d ", open.Conn().PgConn().PID())) {
		t.Errorf("it is refused with %v", err)
	}
	if err := open.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.resize(t, 8)
	b.deliver(t)
}

// A transaction that sees the count as it was before a resize would put its event where nobody looks: it is refused, and can be tried again.
func TestAnAppendThatIsOlderThanAResizeIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	const later = `clock_timestamp() + interval '1 h'`
	for i, append := range []string{
		`SELECT outbox_append('s-' || n, 'thing.done', '{}') FROM generate_series(1, 20) AS n`,
		`SELECT outbox_append('s-' || n, 'thing.done', '{}', available_at => ` + later + `) FROM generate_series(1, 20) AS n`,
		`SELECT * FROM outbox_append_batch(ARRAY['a', 'b', 'c', 'd'], array_fill('t'::text, ARRAY[4]), array_fill('{}'::bytea, ARRAY[4]))`,
	} {
		for j, isolation := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
			tx, err := b.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: isolation})
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.WithoutCancel(t.Context()))
			if _, err := tx.Exec(t.Context(), `SELECT count(*) FROM outbox_settings`); err != nil {
				t.Fatal(err)
			}
			b.resize(t, []int{2, 4}[(i+j)%2])
			_, err = tx.Exec(t.Context(), append)
			var refused *pgconn.PgError
			if !errors.As(err, &refused) || refused.Code != "40001" {
				t.Errorf("%s, %s: %v", isolation, append, err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.exec(t, `BEGIN ISOLATION LEVEL `+string(isolation)+`; `+strings.ReplaceAll(append, later, "NULL")+`; COMMIT`)
		}
	}
	b.deliver(t)
}

// A partition that comes back goes on from the epoch that the stream knows, at once:
// neither a shrink and a grow nor sync --prune and a grow let an epoch go down.
func TestAnEpochOutlivesItsPartition(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	fill := func(payload string) {
		for _, stream := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			b.append(t, stream, payload)
		}
	}
	b.exec(t, `UPDATE outbox_partitions SET lease_epoch = 1000`)
	fill(`1`)
	b.deliver(t)
	b.resize(t, 2)
	b.resize(t, 4)
	fill(`2`)
	b.succeed(t)
	r := b.relay(t, loop.Config{})
	b.drain(t, r)
	if s := r.Stats(); s.Refused != 0 || b.number(t, `SELECT count(*) FROM outbox`) != 0 {
		t.Errorf("after a shrink and a grow %d partitions were refused and %d events wait", s.Refused, b.number(t, `SELECT count(*) FROM outbox`))
	}
	b.resize(t, 2)
	b.exec(t, `UPDATE outbox_settings SET partition_count = 4`) // as a restore by hand may leave it
	b.count = 4
	if added, _, err := b.leases.Sync(t.Context(), 4, false, false); err != nil || added != 2 {
		t.Fatalf("sync added %d, %v", added, err)
	}
	if low := b.number(t, `SELECT min(lease_epoch) FROM outbox_partitions`); low <= 1000 {
		t.Errorf("after sync the lowest epoch is %d", low)
	}
}

// An owner whose epoch lies below the one of the stream's record, since its row was
// made anew by hand, is refused once and not once for each epoch.
func TestARefusedOwnerGoesAboveTheRecord(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.exec(t, `UPDATE outbox_partitions SET lease_epoch = 1000`)
	b.append(t, "s", `1`)
	b.deliver(t)
	b.exec(t, `DELETE FROM outbox_partitions`)
	b.exec(t, `INSERT INTO outbox_partitions (partition_key) VALUES (0)`)
	b.append(t, "s", `2`)
	b.succeed(t)
	l := b.keeper.Set().Held()[0]
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r := b.relay(t, loop.Config{})
	if err := r.Take(ctx, []*lease.Lease{l}); err == nil {
		t.Fatal("an epoch below the record's was not refused")
	}
	b.deliver(t)
	if got := len(sequencesOf(b.stored(t), "s")); got != 2 {
		t.Errorf("%d messages are stored, want 2", got)
	}
}

// What is paused stays paused: an outbox that is paused as a whole does through a
// resize, and one that is paused in part is not resized.
func TestAPauseOutlivesAResize(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	for i := range 8 {
		b.append(t, fmt.Sprintf("s-%d", i), `1`)
	}
	b.exec(t, `UPDATE outbox_partitions SET paused_at = clock_timestamp() WHERE partition_key IN (1, 2)`)
	if _, err := b.resized(t, 8); !errors.Is(err, resize.ErrPaused) || !strings.Contains(err.Error(), "partitions resume 1 2") {
		t.Errorf("resized with two of four partitions paused: %v", err)
	}
	b.until(t, `SELECT count(*) FROM outbox_partitions`, 4)
	b.exec(t, `UPDATE outbox_partitions SET paused_at = clock_timestamp() WHERE paused_at IS NULL`)
	for _, to := range []int{8, 3} {
		b.resize(t, to)
		b.succeed(t)
		b.drain(t, b.relay(t, loop.Config{}))
		if n := b.number(t, `SELECT count(*) FROM outbox`); n != 8 {
			t.Errorf("with everything paused %d of 8 events wait after a resize to %d", n, to)
		}
	}
	b.exec(t, `UPDATE outbox_partitions SET paused_at = NULL`)
	b.deliver(t)
}
