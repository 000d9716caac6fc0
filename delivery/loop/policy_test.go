package loop_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/message"
)

// What waits behind a message that fails, and behind one that is dead, is the
// policy's choice, however messages are stored.
func TestPoliciesDecideWhatWaits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy delivery.FailurePolicy
		dead   bool
		want   []string // streams of the published, in the order of their sequences
	}{
		"stream, failed":  {delivery.BehindStream, false, []string{"a", "b", "c"}},
		"stream, dead":    {delivery.BehindStream, true, []string{"a", "b", "c"}},
		"retries, failed": {delivery.BehindRetries, false, []string{"a", "b", "c"}},
		"retries, dead":   {delivery.BehindRetries, true, []string{"a", "b", "poison", "c", "poison"}},
		"none, failed":    {delivery.BehindNone, false, []string{"a", "b", "poison", "c", "poison"}},
		"none, dead":      {delivery.BehindNone, true, []string{"a", "b", "poison", "c", "poison"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStoring(t, 1, func(t *testing.T, b *bundle) {
				t.Helper()
				b.append(t, "a", `1`)
				poison := b.append(t, "poison", `1`)
				for _, stream := range []string{"b", "poison", "c", "poison"} {
					b.append(t, stream, `1`)
				}
				retry := delivery.RetryPolicy{Base: time.Hour, Factor: 1, Max: time.Hour, Jitter: delivery.JitterNone}
				if c.dead {
					b.exec(t, `UPDATE events SET payload = convert_to(repeat('x', 2000000), 'UTF8') WHERE sequence = $1`, poison)
				} else {
					hide(t, b, poison)
				}
				b.acquireAll(t, b.keeper)
				b.drain(t, b.relay(t, loop.Config{Failure: c.policy, Retry: retry}))
				var got []string
				for _, m := range b.stored(t) {
					got = append(got, m.Header.Get(message.HeaderStream))
				}
				want := slices.Clone(c.want)
				if c.policy != delivery.BehindStream { // parked ones come later
					slices.Sort(got)
					slices.Sort(want)
				}
				if !slices.Equal(got, want) {
					t.Errorf("published %v, want %v", got, want)
				}
				state := "failed"
				if c.dead {
					state = "dead"
				}
				if s := b.state(t, poison); s.State != state {
					t.Errorf("the poison: %+v", s)
				}
			})
		})
	}
}

// A new owner with another policy frees what the old one's policy blocked.
func TestAnotherPolicyFreesWhatWasBlocked(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	poison := b.append(t, "s", `"`+strings.Repeat("x", 2<<20)+`"`)
	var want []string
	for range 3 {
		want = append(want, texts(b.append(t, "s", `1`))...)
	}
	b.acquireAll(t, b.keeper)
	b.drain(t, b.relay(t, loop.Config{}))
	b.until(t, `SELECT count(*) FROM outbox WHERE blocked`, 3)
	b.succeed(t)
	b.drain(t, b.relay(t, loop.Config{Failure: delivery.BehindRetries}))
	if got := sequencesOf(b.stored(t), "s"); !slices.Equal(got, want) {
		t.Errorf("stored %v, want %v", got, want)
	}
	if s := b.state(t, poison); s.State != "dead" {
		t.Errorf("the poison: %+v", s)
	}
}

// A paused partition is left alone, whoever owns it, until it is resumed.
func TestAPausedPartitionWaits(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.exec(t, `UPDATE outbox_partitions SET paused_at = clock_timestamp() WHERE partition_key = 0`)
	for i := range 20 {
		b.append(t, fmt.Sprintf("s-%d", i), `1`)
	}
	b.acquireAll(t, b.keeper)
	b.start(t, b.relay(t, loop.Config{PollInterval: 5 * time.Millisecond}))
	b.until(t, `SELECT count(*) FROM outbox WHERE partition_key = 1`, 0)
	b.until(t, `SELECT (count(*) > 0)::int FROM outbox WHERE partition_key = 0`, 1)
	b.exec(t, `UPDATE outbox_partitions SET paused_at = NULL`)
	b.until(t, `SELECT count(*) FROM outbox`, 0)
}

// A row that somebody put below the cursor is found by the sweep and reported.
func TestARowBelowTheCursorIsFound(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	low := b.append(t, "low", `1`)
	b.exec(t, `DELETE FROM outbox`)
	b.append(t, "high", `1`)
	b.acquireAll(t, b.keeper)
	r := b.relay(t, loop.Config{PollInterval: 5 * time.Millisecond, SweepInterval: 100 * time.Millisecond})
	b.start(t, r)
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id) VALUES ($1, 0, 'low')`, low)
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	if s := r.Stats(); s.Late != 1 {
		t.Errorf("stats %+v, want 1 late row", s)
	}
}

// A message that ends its workers again and again pauses its partition, which names its first message; the others flow. A person
// resumes it: one more end pauses it again, and behind one that published nothing of it is remembered.
func TestAMessageThatEndsItsWorkersPausesItsPartition(t *testing.T) {
	t.Parallel()
	for name, heir := range map[string]struct {
		next func(*bundle, *testing.T)
		most int
	}{
		"leased": {(*bundle).succeed, 4},
		"alone":  {(*bundle).succeedAlone, 3}, // the first start counts: nobody knows how the one before ended
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			aMessageThatEndsItsWorkersPausesItsPartition(t, setup(t, 2), heir.next, heir.most)
		})
	}
}

func aMessageThatEndsItsWorkersPausesItsPartition(t *testing.T, b *bundle, heir func(*bundle, *testing.T), most int) {
	t.Helper()
	streams := b.streamOfEach(t, 2)
	first := b.append(t, streams[0], `1`)
	killer := b.append(t, streams[0], `2`)
	b.append(t, streams[0], `3`)
	b.append(t, streams[1], `1`)
	// ends returns how many heirs ended over the killer until its partition was paused.
	ends := func() (n int) {
		for ; n < 10; n++ {
			heir(b, t)
			r := b.relayOver(t, killedBy{b.publisher(t), killer}, loop.Config{})
			b.drain(t, r)
			if b.number(t, `SELECT count(*) FROM outbox_partitions WHERE paused_at IS NOT NULL`) > 0 {
				break
			}
		}
		return n
	}
	if n := ends(); n != most {
		t.Errorf("the partition is paused after %d ends, want %d", n, most)
	}
	if n := b.number(t, `SELECT count(*) FROM outbox_partitions WHERE paused_at IS NOT NULL AND partition_key = 0`); n != 1 {
		t.Errorf("%d of the partition are paused", n)
	}
	if got := sequencesOf(b.stored(t), streams[1]); len(got) != 1 {
		t.Errorf("the other partition: %v", got)
	}
	if n := b.number(t, `SELECT (details ->> 'sequence')::bigint FROM outbox_audit WHERE action = 'partition.pause' AND actor = 'postrider'`); int64(n) != first {
		t.Errorf("its first message is said to be %d, want %d", n, first)
	}
	resume := func() { b.exec(t, `UPDATE outbox_partitions SET paused_at = NULL`) }
	resume()
	if n := ends(); n != 1 {
		t.Errorf("the partition that was resumed is paused after %d ends, want 1", n)
	}
	resume()
	heir(b, t)
	b.drain(t, b.relay(t, loop.Config{}))
	if got := sequencesOf(b.stored(t), streams[0]); len(got) != 3 || !slices.IsSorted(got) {
		t.Errorf("behind the cure %v is published", got)
	}
	if n := b.number(t, `SELECT sum(crashes) FROM outbox_partitions WHERE partition_key = 0`); n != 0 {
		t.Errorf("although a message was published %d crashes are known", n)
	}
}

// streamOfEach returns a stream of each partition.
func (b *bundle) streamOfEach(t *testing.T, count int) map[int]string {
	t.Helper()
	streams := map[int]string{}
	for n := 0; len(streams) < count; n++ {
		stream := fmt.Sprintf("s-%d", n)
		streams[b.number(t, fmt.Sprintf(`SELECT outbox_partition('%s', %d)`, stream, count))] = stream
	}
	return streams
}

// Owners that end while nothing is under way, however many, pause nothing. What they ended over is remembered while a partition is paused.
func TestOwnersThatEndIdlePauseNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	streams := b.streamOfEach(t, 2)
	b.append(t, streams[1], `1`)
	b.exec(t, `UPDATE outbox_partitions SET crashes = 3, paused_at = clock_timestamp() WHERE partition_key = 1`)
	for range 6 {
		b.succeed(t)
		b.drain(t, b.relay(t, loop.Config{}))
	}
	b.append(t, streams[0], `1`)
	b.succeed(t)
	b.drain(t, b.relay(t, loop.Config{}))
	if got := sequencesOf(b.stored(t), streams[0]); len(got) != 1 {
		t.Errorf("behind idle owners %v is published", got)
	}
	if n := b.number(t, `SELECT crashes FROM outbox_partitions WHERE partition_key = 1`); n != 3 {
		t.Errorf("while it is paused %d crashes are known", n)
	}
	b.exec(t, `UPDATE outbox_partitions SET paused_at = NULL`)
	b.drain(t, b.relay(t, loop.Config{}))
	b.until(t, `SELECT sum(crashes) + count(*) FILTER (WHERE carrying) FROM outbox_partitions`, 0)
}

// A resize takes partitions over, too, and pauses none: it looked before whether any is paused.
func TestATakeoverForAResizePausesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.append(t, "s", `1`)
	b.acquireAll(t, b.keeper)
	b.exec(t, `UPDATE outbox_partitions SET crashes = 3, carrying = true`)
	b.succeed(t)
	if err := b.relay(t, loop.Config{}).Take(t.Context(), b.keeper.Set().Held()); err != nil {
		t.Fatal(err)
	}
	if n := b.number(t, `SELECT count(*) FROM outbox_partitions WHERE crashes = 4 AND paused_at IS NULL`); n != 1 {
		t.Errorf("%d partitions are as they were", n)
	}
}

// out takes nothing, and tells that it was asked to.
type out struct {
	delivery.Publisher
	asked chan struct{}
}

func (p out) Publish(look []delivery.Batch, done func(int, []delivery.Outcome)) {
	for i, b := range look {
		done(i, unresolved(b, delivery.ErrOutage))
	}
	select {
	case p.asked <- struct{}{}:
	default:
	}
}

// unresolved is what a publisher says of a batch of which it takes nothing.
func unresolved(b delivery.Batch, err error) []delivery.Outcome {
	return slices.Repeat([]delivery.Outcome{{Kind: delivery.Unresolved, Err: err}}, len(b.Messages))
}

// Workers that end while the broker takes nothing, for whatever reason, end over no message: no partition is paused for it.
func TestAnOutagePausesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	innocent := b.append(t, "s", `1`)
	publisher := b.publisher(t)
	for range 6 { // four pause a partition
		b.succeed(t)
		away := out{publisher, make(chan struct{}, 1)}
		r := b.relayOver(t, away, loop.Config{})
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx, b.keeper.Set()) }()
		select {
		case <-away.asked:
		case <-time.After(patience): // it is paused
		}
		end()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	b.succeed(t)
	b.drain(t, b.relay(t, loop.Config{}))
	if s := b.state(t, innocent); s.State != "published" {
		t.Errorf("it is %+v", s)
	}
}
