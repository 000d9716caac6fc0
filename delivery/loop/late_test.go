package loop_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/partition"
)

// holdMarks keeps marks of a partition waiting until release is called, which has the database do something before.
func (b *bundle) holdMarks(t *testing.T, id partition.ID) (release func(do string, args ...any)) {
	t.Helper()
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`SELECT FROM outbox_partitions WHERE partition_key = $1 FOR UPDATE`, id)
	return func(do string, args ...any) {
		t.Helper()
		exec(do, args...)
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// untilStored waits until the stream holds so many events, and returns their sequences.
func (b *bundle) untilStored(t *testing.T, stream string, want int) []string {
	t.Helper()
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for began := time.Now(); ; <-pace.C {
		if got := sequencesOf(b.stored(t), stream); len(got) >= want {
			return got
		} else if time.Since(began) > patience {
			t.Fatalf("the stream holds %v of %s, want %d", got, stream, want)
		}
	}
}

// lateBatches has a relay publish three batches of a partition whose marks wait, and returns what releases these.
func (b *bundle) lateBatches(t *testing.T, relay *loop.Relay) (sequences []string, stop func(), release func(do string, args ...any)) {
	t.Helper()
	b.acquireAll(t, b.keeper)
	stop = b.start(t, relay)
	sequences = texts(b.append(t, "s", `0`))
	b.until(t, `SELECT count(*) FROM outbox_messages WHERE state = 'published'`, 1)
	release = b.holdMarks(t, 0)
	for n := range 3 {
		tx, err := b.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			sequences = append(sequences, texts(appendIn(t, tx, "s"))...)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.bell.Ring()
		b.untilStored(t, "s", 1+5*(n+1))
	}
	b.until(t, `SELECT count(*) FROM outbox`, 15)
	return sequences, stop, release
}

// wantOnce wants each of these in the stream once and in order, nothing left, and a history that knows each position.
func (b *bundle) wantOnce(t *testing.T, want []string) {
	t.Helper()
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	messages := b.stored(t)
	if got := sequencesOf(messages, "s"); !slices.Equal(got, want) {
		t.Errorf("stored %v, want %v", got, want)
	}
	for _, m := range messages {
		b.until(t, fmt.Sprintf(`SELECT stream_sequence FROM outbox_messages WHERE global_sequence = %s AND state = 'published'`, m.Header.Get(message.HeaderSequence)), int(m.Sequence))
	}
}

// wantHeirOnce has a new owner deliver what is left, and wants what wantOnce does.
func (b *bundle) wantHeirOnce(t *testing.T, want []string) {
	t.Helper()
	b.keeper = b.newKeeper(t)
	b.acquireAll(t, b.keeper)
	b.drain(t, b.relay(t, loop.Config{}))
	b.wantOnce(t, want)
}

// A partition does not wait for its marks.
func TestAPartitionGoesOnBeforeItsMarks(t *testing.T) {
	t.Parallel()
	eachStoring(t, 1, func(t *testing.T, b *bundle) {
		t.Helper()
		sequences, stop, release := b.lateBatches(t, b.relay(t, loop.Config{}))
		release(`SELECT`)
		b.wantOnce(t, sequences)
		stop()
		b.until(t, `SELECT sum(published) FROM outbox_throughput`, len(sequences))
		b.until(t, `SELECT sum(message_count) FROM outbox_deliveries`, len(sequences))
	})
}

// An heir marks every batch that the stream holds and its predecessor did not mark, not only the last one.
func TestAnHeirMarksAllBatchesThatWereNotMarked(t *testing.T) {
	t.Parallel()
	eachWay(t, 1, heirMarksAll)
}

func heirMarksAll(t *testing.T, b *bundle) {
	t.Helper()
	relay := b.relay(t, loop.Config{})
	sequences, stop, release := b.lateBatches(t, relay)
	release(`UPDATE outbox_partitions SET lease_owner = $1, lease_epoch = lease_epoch + 1, lease_until = clock_timestamp() - interval '1 s'`, uuid.New())
	stop()
	if s := relay.Stats(); s.Fenced == 0 {
		t.Errorf("no mark was refused: the test shows nothing (%+v)", s)
	}
	b.until(t, `SELECT count(*) FROM outbox`, 15)
	b.wantHeirOnce(t, sequences)
}

// A mark vouches for all before it: where one is given up, as at the relay's end, those behind it are not made either, and the
// heir finds all of them.
func TestNoMarkVouchesForOneThatWasGivenUp(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	sequences, stop, release := b.lateBatches(t, b.relay(t, loop.Config{}))
	row, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = row.Rollback(context.Background()) })
	if _, err := row.Exec(t.Context(), `SELECT FROM outbox_ready WHERE global_sequence = $1 FOR UPDATE`, sequences[1]); err != nil {
		t.Fatal(err)
	}
	release(`SELECT`)
	stop() // the mark of the first batch waits in vain for that row
	b.until(t, `SELECT count(*) FROM outbox`, 15)
	if err := row.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.exec(t, `UPDATE outbox_partitions SET lease_until = clock_timestamp() - interval '1 s'`)
	b.wantHeirOnce(t, sequences)
}

// A standby that lags lacks marks; whatever they were, the records tell them.
func TestMarksThatAStandbyLacksAreMadeUpFor(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.acquireAll(t, b.keeper)
	stop := b.start(t, b.relay(t, loop.Config{}))
	const lacks = 120 // more batches than are read at once
	var sequences []string
	for n := range lacks + 2 {
		sequences = append(sequences, texts(b.append(t, "s", fmt.Sprint(n)))...)
		b.bell.Ring()
		b.untilStored(t, "s", n+1)
		if n == 1 {
			b.until(t, `SELECT count(*) FROM outbox`, 0)
			b.exec(t, `CREATE TABLE kept AS SELECT * FROM outbox_partitions`)
		}
	}
	stop()
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	b.forgetMarks(t)
	b.succeed(t)
	b.drain(t, b.relay(t, loop.Config{}))
	b.wantOnce(t, sequences)
}

// forgetMarks takes the database back to what it knew when the table kept was made, but for events.
func (b *bundle) forgetMarks(t *testing.T) {
	t.Helper()
	b.inOne(t,
		`INSERT INTO outbox (global_sequence, partition_key, stream_id, topic)
		 SELECT e.sequence, k.partition_key, e.stream_id, e.topic FROM events AS e, kept AS k WHERE e.sequence > k.delivered`,
		`DELETE FROM outbox_deliveries WHERE last_sequence > (SELECT delivered FROM kept)`,
		`UPDATE outbox_partitions AS p SET revision = k.revision, delivered = k.delivered, fence_sequence = k.fence_sequence, stream_sequence = k.stream_sequence
		   FROM kept AS k WHERE k.partition_key = p.partition_key`)
}

// inOne executes statements in one transaction.
func (b *bundle) inOne(t *testing.T, statements ...string) {
	t.Helper()
	if err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		for _, s := range statements {
			if _, err := tx.Exec(t.Context(), s); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A mark vouches for all that was marked before it. Where the database has forgotten that, it is not made, and the
// partition is taken anew.
func TestAMarkIsNotMadeBehindOneThatWasForgotten(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.acquireAll(t, b.keeper)
	stop := b.start(t, b.relay(t, loop.Config{SweepInterval: 100 * time.Millisecond}))
	var sequences []string
	for n := range 8 {
		sequences = append(sequences, texts(b.append(t, "s", fmt.Sprint(n)))...)
		b.bell.Ring()
		b.untilStored(t, "s", n+1)
		if n == 3 {
			b.until(t, `SELECT count(*) FROM outbox`, 0)
			b.exec(t, `CREATE TABLE kept AS SELECT * FROM outbox_partitions`)
		}
	}
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	release := b.holdMarks(t, 0)
	sequences = append(sequences, texts(b.append(t, "s", `9`))...)
	b.bell.Ring()
	b.untilStored(t, "s", len(sequences))
	release(`WITH back AS (
		INSERT INTO outbox (global_sequence, partition_key, stream_id, topic)
		SELECT e.sequence, k.partition_key, e.stream_id, e.topic FROM events AS e, kept AS k
		 WHERE e.sequence > k.delivered AND e.sequence < $1),
		 history AS (DELETE FROM outbox_deliveries WHERE last_sequence > (SELECT delivered FROM kept))
		UPDATE outbox_partitions AS p SET revision = k.revision, delivered = k.delivered, fence_sequence = k.fence_sequence, stream_sequence = k.stream_sequence
		  FROM kept AS k WHERE k.partition_key = p.partition_key`, sequences[len(sequences)-1])
	b.wantOnce(t, sequences)
	sequences = append(sequences, texts(b.append(t, "s", `10`))...)
	b.wantOnce(t, sequences)
	stop()
}

// What a failure parks decides what may be claimed: its partition waits for the mark, others do not.
func TestAPartitionWaitsForTheMarkOfAFailure(t *testing.T) {
	t.Parallel()
	b := setup(t, 64)
	b.acquireAll(t, b.keeper)
	b.start(t, b.relay(t, loop.Config{}))
	b.append(t, "s", `1`)
	b.append(t, "other", `1`)
	b.until(t, `SELECT count(*) FROM outbox_messages WHERE state = 'published'`, 2)
	var id partition.ID
	if err := b.pool.QueryRow(t.Context(), `SELECT outbox_partition('s', 64)`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	release := b.holdMarks(t, id)
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	missing := appendIn(t, tx, "s")
	if _, err := tx.Exec(t.Context(), `DELETE FROM events WHERE sequence = $1`, missing); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.append(t, "other", `2`) // the watermark goes as far as events do
	b.untilStored(t, "other", 2)
	b.until(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%outbox_partitions%'`, 1)
	b.append(t, "s", `3`)
	b.append(t, "other", `3`)
	b.untilStored(t, "other", 3)
	release(`SELECT`)
	b.until(t, `SELECT count(*) FROM outbox_messages WHERE stream_id = 's' AND state IN ('published', 'blocked')`, 2)
	if got := sequencesOf(b.stored(t), "s"); len(got) != 1 {
		t.Errorf("the stream holds %v of s: something passed what had failed", got)
	}
}
