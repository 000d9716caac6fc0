package loop_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// What the stream names and the database lacks was forgotten, below the highest
// sequence, too; unless the database knows that it was published, or it lies below
// all that is left. Each loss is reported once.
func TestForgottenEventsAreTold(t *testing.T) {
	t.Parallel()
	const remember = `CREATE TABLE kept AS SELECT partition_key, delivered, fence_sequence, stream_sequence FROM outbox_partitions`
	// forget is what a standby that lagged lacks: events, the history, marks and progress.
	const forget = `
		DELETE FROM events WHERE sequence > (SELECT max(delivered) FROM kept);
		DELETE FROM outbox_deliveries WHERE last_sequence > (SELECT max(delivered) FROM kept);
		UPDATE outbox_partitions AS p SET delivered = k.delivered, fence_sequence = k.fence_sequence, stream_sequence = k.stream_sequence
		  FROM kept AS k WHERE k.partition_key = p.partition_key;`
	for name, c := range map[string]struct {
		lose string
		more int // events that come then; their sequences leave a hole, as behind a failover
		want int
	}{
		"a few, below the highest":                       {forget, 3, 1},
		"a few, and nothing comes":                       {forget, 0, 1},
		"a few, and all before was removed":              {forget + `DELETE FROM events`, 3, 1},
		"removed but the newest":                         {`DELETE FROM events WHERE sequence < 8`, 0, 0},
		"removed, all of them":                           {`DELETE FROM events`, 0, 0},
		"removed, and so was the history":                {`DELETE FROM events; DELETE FROM outbox_deliveries`, 0, 0},
		"removed, all of them, and others came":          {`DELETE FROM events`, 3, 0},
		"removed, and the partition was made anew":       {`DELETE FROM events; UPDATE outbox_partitions SET delivered = 0, fence_sequence = 0, stream_sequence = 0`, 3, 0},
		"nothing removed, and the partition made anew":   {`UPDATE outbox_partitions SET delivered = 0, fence_sequence = 0, stream_sequence = 0`, 3, 0},
		"nothing but marks":                              {`UPDATE outbox_partitions AS p SET fence_sequence = k.fence_sequence FROM kept AS k WHERE k.partition_key = p.partition_key`, 3, 0},
		"all, with the partition's progress, and others": {`DELETE FROM events; DELETE FROM outbox_deliveries; UPDATE outbox_partitions SET delivered = 0, fence_sequence = 0, stream_sequence = 0`, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1)
			b.publish(t, 5)
			b.exec(t, remember)
			b.publish(t, 3)
			b.exec(t, c.lose)
			b.exec(t, `SELECT setval(pg_get_serial_sequence('events', 'sequence'), 40)`)
			told := b.publish(t, c.more).Regressions
			if told != int64(c.want) {
				t.Fatalf("it was counted %d times, want %d", told, c.want)
			}
			b.until(t, `SELECT count(*) FROM outbox_audit WHERE action = 'database.regressed'`, c.want)
			b.until(t, `SELECT generation FROM outbox_settings WHERE (regressed IS NOT NULL) = (generation > 0)`, c.want)
			// Nobody reports it again, and the next loss is another one.
			if again := b.publish(t, 0).Regressions; again != 0 {
				t.Error("it is reported again")
			}
			b.exec(t, `DROP TABLE kept;`+remember)
			b.publish(t, 2)
			b.exec(t, forget)
			if again := b.publish(t, 0).Regressions; again != 1 {
				t.Fatalf("the next loss was counted %d times", again)
			}
			b.until(t, `SELECT generation FROM outbox_settings`, c.want+1)
		})
	}
}

// publish appends so many events, and has a new owner deliver them.
func (b *bundle) publish(t *testing.T, n int) loop.Stats {
	t.Helper()
	for i := range n {
		b.append(t, "s", fmt.Sprint(i))
	}
	b.succeed(t)
	r := b.relay(t, loop.Config{})
	b.drain(t, r)
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	return r.Stats()
}

// A sequence that a failover forgot is another event's by now. That one is known by its own name when its mark is forgotten, too.
func TestAnEventIsNotTakenForTheForgottenOneOfItsSequence(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	const progress = ` AS SELECT partition_key, delivered, fence_sequence, stream_sequence FROM outbox_partitions;`
	const forget = `
		DELETE FROM outbox_deliveries WHERE last_sequence > (SELECT max(delivered) FROM kept);
		UPDATE outbox_partitions AS p SET delivered = k.delivered, fence_sequence = k.fence_sequence, stream_sequence = k.stream_sequence
		  FROM kept AS k WHERE k.partition_key = p.partition_key;`
	b.publish(t, 1)
	b.exec(t, `CREATE TABLE kept`+progress)
	b.publish(t, 1)
	b.exec(t, `DELETE FROM events WHERE sequence = 2;`+forget+`SELECT setval(pg_get_serial_sequence('events', 'sequence'), 1)`)
	if told := b.publish(t, 0).Regressions; told != 1 {
		t.Fatalf("it was counted %d times", told)
	}
	b.append(t, "s", `"another"`)
	b.append(t, "s", `"one more"`)
	b.exec(t, `CREATE TABLE waiting AS TABLE outbox_ready; DROP TABLE kept; CREATE TABLE kept`+progress)
	b.succeed(t)
	b.drain(t, b.relay(t, loop.Config{BatchSize: 1}))
	b.exec(t, `INSERT INTO outbox_ready TABLE waiting;`+forget)
	b.publish(t, 0)
	if got := sequencesOf(b.stored(t), "s"); !slices.Equal(got, []string{"1", "2", "2", "3"}) {
		t.Errorf("the stream holds %v", got)
	}
}

// A stream that was lost and filled again tells a database that knows nothing of that what it has forgotten, too: to
// queue again what seems to be lost must not hide it.
func TestForgottenEventsAreToldBehindALostStream(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	for range 10 {
		b.publish(t, 1)
	}
	b.exec(t, `CREATE TABLE kept AS SELECT partition_key, delivered, fence_sequence, stream_sequence FROM outbox_partitions;
		CREATE TABLE history AS TABLE outbox_deliveries`)
	remake(t, b)
	b.publish(t, 3)
	b.until(t, `SELECT count(*) FROM kept JOIN outbox_partitions AS p USING (partition_key) WHERE p.fence_sequence < kept.fence_sequence`, 1)
	b.exec(t, `DELETE FROM events WHERE sequence > (SELECT delivered FROM kept);
		TRUNCATE outbox_deliveries;
		INSERT INTO outbox_deliveries OVERRIDING SYSTEM VALUE TABLE history;
		UPDATE outbox_partitions AS p SET delivered = k.delivered, fence_sequence = k.fence_sequence, stream_sequence = k.stream_sequence
		  FROM kept AS k WHERE k.partition_key = p.partition_key`)
	if told := b.publish(t, 0).Regressions; told != 1 {
		t.Errorf("it was counted %d times", told)
	}
	remake(t, b)
	b.exec(t, `DELETE FROM events WHERE sequence = 5`)
	if told := b.publish(t, 2).Regressions + b.publish(t, 0).Regressions; told != 0 {
		t.Errorf("what was removed on purpose was counted %d times", told)
	}
}

// A worker whose leases outlive a failover takes its partitions anew before their
// records change, also when nothing is to be published.
func TestALivingWorkerLooksWhatAnotherServerForgot(t *testing.T) {
	t.Parallel()
	b, server := setupOwn(t, 2)
	b.acquireAll(t, b.keeper)
	r := b.relay(t, loop.Config{PollInterval: 5 * time.Millisecond})
	b.start(t, r)
	b.append(t, "s", `1`)
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	b.exec(t, `DELETE FROM events; DELETE FROM outbox_deliveries; UPDATE outbox_partitions SET delivered = 0, fence_sequence = 0, stream_sequence = 0`)
	b.pool.Reset()
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.pool.Reset()
	b.until(t, `SELECT count(*) FROM outbox_audit WHERE action = 'database.regressed'`, 1)
	for began := time.Now(); r.Stats().Regressions == 0 && time.Since(began) < patience; {
		b.until(t, `SELECT 1`, 1) // its answer is on the way
	}
	if n := r.Stats().Regressions; n != 1 {
		t.Errorf("it was counted %d times", n)
	}
}

// tookThen does something between a worker's first takeover and its first claim.
type tookThen struct {
	once sync.Once
	do   func()
}

func (o *tookThen) Taken(time.Time, *lease.Lease, error) { o.once.Do(o.do) }

func (*tookThen) Claimed(time.Time, int, int, error)                      {}
func (*tookThen) Published(time.Time, delivery.Batch, []delivery.Outcome) {}
func (*tookThen) Marked(time.Time, []delivery.Result, error)              {}

// The server that a takeover asked is known to the first claim already.
func TestAFailoverBeforeTheFirstClaimIsNoticed(t *testing.T) {
	t.Parallel()
	b, server := setupOwn(t, 1)
	b.publish(t, 3)
	b.succeed(t)
	over := make(chan struct{})
	r := b.relay(t, loop.Config{PollInterval: 5 * time.Millisecond, Observer: &tookThen{do: func() {
		defer close(over)
		b.exec(t, `DELETE FROM events; DELETE FROM outbox_deliveries; UPDATE outbox_partitions SET delivered = 0, fence_sequence = 0, stream_sequence = 0`)
		b.pool.Reset()
		if err := server.Restart(t.Context()); err != nil {
			t.Error(err)
		}
		b.pool.Reset()
	}}})
	b.start(t, r)
	<-over
	b.until(t, `SELECT count(*) FROM outbox_audit WHERE action = 'database.regressed'`, 1)
}

// amid is a publisher that does something between the stream's first answer and the mark.
type amid struct {
	delivery.Publisher
	once sync.Once
	do   func()
}

func (a *amid) Publish(look []delivery.Batch, done func(int, []delivery.Outcome)) {
	a.Publisher.Publish(look, func(i int, outcomes []delivery.Outcome) {
		a.once.Do(a.do)
		done(i, outcomes)
	})
}

// A mark that was on its way when the database failed over finds another event under
// the sequence that it names, of the same stream and the same lease: that one is
// published, and not taken for the one that was forgotten.
func TestAMarkOfAnotherServerIsNotMade(t *testing.T) {
	t.Parallel()
	b, server := setupOwn(t, 1)
	b.acquireAll(t, b.keeper)
	publisher := b.publisher(t)
	over := make(chan struct{})
	failover := &amid{Publisher: publisher, do: func() {
		defer close(over)
		b.exec(t, `DELETE FROM events; DELETE FROM outbox; SELECT setval(pg_get_serial_sequence('events', 'sequence'), 1, false)`)
		b.append(t, "s", `"after"`)
		b.pool.Reset()
		if err := server.Restart(t.Context()); err != nil {
			t.Error(err)
		}
		b.pool.Reset()
	}}
	sequence := b.append(t, "s", `"before"`)
	r := b.relayOver(t, failover, loop.Config{PollInterval: 5 * time.Millisecond})
	b.start(t, r)
	<-over
	b.until(t, `SELECT count(*) FROM outbox_deliveries`, 1)
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	if got := sequencesOf(b.stored(t), "s"); sequence != 1 || !slices.Equal(got, []string{"1", "1"}) {
		t.Errorf("stored are %v, want the event before the failover and the one after it", got)
	}
}

// How much of what was queued again had come when the database failed over.
const none, some, all = "none", "some", "all"

// forget takes back what a healing did.
const forget = `DELETE FROM outbox; DELETE FROM outbox_deliveries WHERE id NOT IN (SELECT id FROM known); UPDATE outbox_deliveries SET lost_after = NULL;
	UPDATE outbox_partitions AS p SET fence_sequence = w.fence_sequence, stream_sequence = w.stream_sequence, stream_life = w.stream_life FROM was AS w`

// healings are those that a failover forgets.
var healings = map[string]struct {
	lose           func(*testing.T, *bundle)
	came           string
	failover       string
	lease, process bool // which are others afterwards
}{
	"purged":                     {purge, none, forget, false, false},
	"made anew":                  {remake, none, forget, false, false},
	"purged, some came":          {purge, some, forget, false, false},
	"made anew, some came":       {remake, some, forget, false, false},
	"purged, another lease":      {purge, some, forget, true, false},
	"purged, another process":    {purge, some, forget, true, true},
	"made anew, another process": {remake, all, forget, true, true},
	"purged, all came":           {purge, all, forget, false, false},
	"made anew, all came":        {remake, all, forget, false, false},
	"made anew, and remembered":  {remake, all, `SELECT`, false, false},
}

// A failover forgets that lost messages were queued again: whoever takes the partition queues them once more, also under another
// lease and in another process. What came already does not come twice, and what the database remembers is left alone.
func TestAForgottenHealingIsMadeAgain(t *testing.T) {
	t.Parallel()
	for name, c := range healings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, server := setupOwn(t, 1)
			for range 3 {
				b.publish(t, 3)
			}
			c.lose(t, b)
			b.succeed(t)
			b.exec(t, `CREATE TABLE was AS SELECT * FROM outbox_partitions; CREATE TABLE known AS SELECT id FROM outbox_deliveries`)
			healed, over := make(chan struct{}), make(chan struct{})
			failover := func() {
				b.exec(t, c.failover)
				if c.lease {
					b.keeper.Set().Held()[0].Lost()
				}
				b.pool.Reset()
				if err := server.Restart(t.Context()); err != nil {
					t.Error(err)
				}
				b.pool.Reset()
				close(over)
			}
			at := func(when string) func() {
				if when != c.came {
					return func() {}
				}
				return failover
			}
			publisher := &amid{Publisher: b.publisher(t), do: at(some)}
			r, err := loop.NewRelay(loop.Config{
				PollInterval: 5 * time.Millisecond, BatchSize: 4, Logger: testLogger(t), Observer: &tookThen{do: func() { at(none)(); close(healed) }},
			}, b.store, publisher, b.bell)
			if err != nil {
				t.Fatal(err)
			}
			stop := b.start(t, r)
			<-healed
			if c.came == all {
				b.until(t, `SELECT count(*) FROM outbox`, 0)
				failover()
			}
			<-over
			if c.process {
				stop()
			}
			if c.lease {
				b.regain(t)
			}
			if c.process {
				b.start(t, b.relay(t, loop.Config{PollInterval: 5 * time.Millisecond}))
			}
			b.until(t, `SELECT count(*) FROM outbox_deliveries WHERE lost_after IS NOT NULL`, 3)
			want := texts(1, 2, 3, 4, 5, 6, 7, 8, 9, b.append(t, "s", `1`))
			b.until(t, `SELECT count(*) FROM outbox`, 0)
			if got := sequencesOf(b.stored(t), "s"); !slices.Equal(got, want) {
				t.Errorf("stored are %v, want %v", got, want)
			}
			if lost := b.number(t, `SELECT count(*) FROM outbox_deliveries WHERE lost_after IS NOT NULL`); lost != 3 {
				t.Errorf("%d batches are lost, want 3", lost)
			}
		})
	}
}

// regain acquires the partition as soon as nothing is under way under the lease that was lost.
func (b *bundle) regain(t *testing.T) {
	t.Helper()
	b.exec(t, `UPDATE outbox_partitions SET lease_until = clock_timestamp() - interval '1 s'`)
	var leases []*lease.Lease
	for began := time.Now(); len(leases) == 0 && time.Since(began) < patience; {
		var err error
		if leases, err = b.keeper.Acquire(t.Context(), []partition.ID{0}); err != nil {
			t.Fatal(err)
		}
	}
}
