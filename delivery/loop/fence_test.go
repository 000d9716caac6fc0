package loop_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/partition"
)

// gate is a publisher that lets a test act between publishing and marking.
type gate struct {
	delivery.Publisher
	published chan struct{} // receives after a batch was published
	goOn      chan struct{} // closed: the batch may be marked
}

func (g gate) Publish(look []delivery.Batch, done func(int, []delivery.Outcome)) {
	g.Publisher.Publish(look, func(i int, outcomes []delivery.Outcome) {
		g.published <- struct{}{}
		<-g.goOn
		done(i, outcomes)
	})
}

// A worker that lost its lease between publishing and marking changes nothing:
// neither rows nor history nor progress nor counts nor parked rows.
func TestAStaleOwnersMarksAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.append(t, "s", `1`)
	missing := b.append(t, "missing", `2`)
	b.exec(t, `DELETE FROM events WHERE sequence = $1`, missing)
	b.acquireAll(t, b.keeper)
	publisher := b.publisher(t)
	g := gate{publisher, make(chan struct{}), make(chan struct{})}
	r := b.relayOver(t, g, loop.Config{Ordering: delivery.OrderStream})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx, b.keeper.Set()) })
	<-g.published
	stale := b.keeper.Set().Held()[0]
	b.exec(t, `UPDATE outbox_partitions SET lease_until = clock_timestamp() - interval '1 s'`)
	heir := b.newKeeper(t)
	b.acquireAll(t, heir)
	close(g.goOn)
	select {
	case <-stale.Context().Done():
	case <-time.After(patience):
		t.Fatal("the stale lease was not ended")
	}
	cancel()
	running.Wait()
	if s := r.Stats(); s.Fenced != 2 || s.Published != 0 {
		t.Errorf("stats %+v, want 2 fenced", s)
	}
	for what, sql := range map[string]string{
		"rows":       `SELECT (count(*) = 2)::int - 1 FROM outbox WHERE NOT parked AND attempts = 0`,
		"deliveries": `SELECT count(*) FROM outbox_deliveries`,
		"counts":     `SELECT count(*) FROM outbox_throughput`,
		"progress":   `SELECT delivered FROM outbox_partitions`,
	} {
		t.Log(what)
		b.until(t, sql, 0)
	}
	// The heir finds what the stream holds, and publishes it no second time.
	b.keeper = heir
	b.drain(t, b.relay(t, loop.Config{}))
	if n := len(sequencesOf(b.stored(t), "s")); n != 1 {
		t.Errorf("the stream holds the event %d times", n)
	}
}

// Every write under a stale epoch is refused, whatever it would do.
func TestMarkComparesOwnerAndEpoch(t *testing.T) {
	t.Parallel()
	b := setup(t, 3)
	for i := range 3 {
		b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id, parked) VALUES ($1::bigint, $1::bigint % 3, 's', false)`, int64(i))
	}
	b.acquireAll(t, b.keeper)
	stale := b.keeper.Set().Held()
	revisions := map[partition.ID]int64{}
	for _, l := range stale {
		revisions[l.Partition] = b.takeRow(t, l)
	}
	b.exec(t, `UPDATE outbox_partitions SET lease_epoch = lease_epoch + 1 WHERE partition_key = $1`, int64(1))
	var results []delivery.Result
	for i, l := range stale {
		kind := delivery.Outcome{Kind: delivery.Published, StreamSequence: uint64(i + 1)}
		if l.Partition == 2 {
			kind = delivery.Outcome{Kind: delivery.Retry, Err: fmt.Errorf("broken")}
		}
		results = append(results, delivery.Result{
			Batch:    delivery.Batch{Lease: l, Messages: []delivery.Message{{Pointer: delivery.Pointer{Partition: l.Partition, Sequence: int64(i), Stream: "s"}}}},
			Outcomes: []delivery.Outcome{kind}, Revision: revisions[l.Partition],
		})
	}
	fenced, err := b.store.Mark(t.Context(), results, delivery.DefaultRetryPolicy(), func() float64 { return 0 })
	if err != nil || !slices.Equal(fenced, []partition.ID{1}) {
		t.Fatalf("fenced %v, %v; want partition 1", fenced, err)
	}
	b.until(t, `SELECT count(*) FROM outbox WHERE partition_key = 0`, 0)
	b.until(t, `SELECT count(*) FROM outbox WHERE partition_key = 1 AND NOT parked`, 1)
	b.until(t, `SELECT attempts FROM outbox WHERE partition_key = 2 AND parked`, 1)
	// Marking again changes nothing: the history is made of rows really deleted.
	if _, err := b.store.Mark(t.Context(), results[:1], delivery.DefaultRetryPolicy(), func() float64 { return 0 }); err != nil {
		t.Fatal(err)
	}
	b.until(t, `SELECT sum(message_count) FROM outbox_deliveries`, 1)
	b.until(t, `SELECT sum(published) FROM outbox_throughput`, 1)
}

// A sequence that commits after higher ones were delivered is not skipped.
func TestALateCommitIsNotSkipped(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	late := appendIn(t, tx, "late")
	early := b.append(t, "early", `1`)
	if late >= early {
		t.Fatalf("the late one has sequence %d, not below %d", late, early)
	}
	b.acquireAll(t, b.keeper)
	b.start(t, b.relay(t, loop.Config{Ordering: delivery.OrderStream, SweepInterval: time.Hour}))
	b.until(t, `SELECT count(*) FROM outbox_messages WHERE state = 'published'`, 1)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.until(t, `SELECT count(*) FROM outbox_messages WHERE state = 'published'`, 2)
	if got := len(b.stored(t)); got != 2 {
		t.Errorf("%d messages are stored, want 2", got)
	}
}

func appendIn(t *testing.T, tx pgx.Tx, stream string) (sequence int64) {
	t.Helper()
	if err := tx.QueryRow(t.Context(), `SELECT outbox_append($1, 'thing.done', '1')`, stream).Scan(&sequence); err != nil {
		t.Fatal(err)
	}
	return sequence
}

// A claim and a mark are made where the row is as its owner left it: not behind a mark that the database has forgotten, nor behind
// another takeover, nor on another server. A mark without an answer is made again, and changes nothing.
func TestClaimsAndMarksCompareTheRow(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	sequences := []int64{b.append(t, "s", `1`), b.append(t, "s", `2`), b.append(t, "s", `3`)}
	b.acquireAll(t, b.keeper)
	l := b.keeper.Set().Held()[0]
	first := b.takeRow(t, l)
	mark := func(n int, revision int64) error {
		_, err := b.store.Mark(t.Context(), []delivery.Result{{
			Batch:    delivery.Batch{Lease: l, Messages: []delivery.Message{{Pointer: delivery.Pointer{Sequence: sequences[n], Stream: "s"}}}},
			Outcomes: []delivery.Outcome{{Kind: delivery.Published, StreamSequence: uint64(n) + 1}}, Revision: revision,
		}}, delivery.DefaultRetryPolicy(), nil)
		return err
	}
	claim := func(revision int64) error {
		ask := []delivery.Ask{{Lease: l, Revision: revision, After: math.MinInt64, Most: 10}}
		_, err := b.store.Claim(t.Context(), ask, delivery.Limits{Total: 10, UpTo: math.MaxInt64}, delivery.BehindStream)
		if forgotten, unknown := b.store.Forgotten(t.Context(), ask); unknown != nil || (len(forgotten) > 0) != errors.Is(err, delivery.ErrForgotten) {
			t.Errorf("a claim ended with %v, and of its partitions %v are forgotten, %v", err, forgotten, unknown)
		}
		return err
	}
	want := func(what string, forgotten bool, errs ...error) {
		t.Helper()
		for _, err := range errs {
			if errors.Is(err, delivery.ErrForgotten) != forgotten || !forgotten && err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	want("as it was left", false, claim(first), mark(0, first), claim(first+1))
	want("with a mark that is under way", false, claim(first), mark(0, first))
	b.until(t, `SELECT sum(published) FROM outbox_throughput`, 1)
	want("the next mark", false, mark(1, first+1), claim(first+2))
	want("behind two marks", true, claim(first), mark(0, first))
	b.exec(t, `UPDATE outbox_partitions SET revision = revision - 1`)
	want("without the last mark", true, claim(first+2), mark(2, first+2))
	second := b.takeRow(t, l)
	want("behind another takeover", true, claim(first), claim(first+1), mark(2, first+1))
	b.exec(t, `UPDATE outbox_partitions SET taken_on = taken_on - interval '1 s'`)
	want("on another server", true, claim(second), mark(2, second))
	third := b.takeRow(t, l)
	want("taken anew", false, claim(third), mark(2, third))
	b.until(t, `SELECT count(*) FROM outbox`, 0)
}
