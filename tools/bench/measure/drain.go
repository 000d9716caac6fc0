package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/outbox"
)

// drain is the case of publishing a backlog at full speed.
type drain struct {
	shape
	broker brokerShape
	// relay is the measured relay; nil: the null relay, in atomic batches where atomic is set.
	relay  *relayShape
	atomic bool
	// most ends the measurement after so many events; 0 means all.
	most int
}

// drained holds a drain's duration, its use of processors, and its size.
type drained struct {
	spent
	events int
	took   time.Duration
}

func (c drain) run(ctx context.Context, b *Bench) (_ Sample, err error) {
	d, err := b.database(ctx, c.shape)
	if err != nil {
		return Sample{}, err
	}
	if err := d.restore(ctx, c.relay != nil); err != nil {
		return Sample{}, err
	}
	n, err := b.broker(ctx, c.broker)
	if err != nil {
		return Sample{}, err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	var values map[string]float64
	var result drained
	order := ledger.ByPartition
	if c.relay != nil {
		order = c.relay.order
		result, values, err = c.measureRelay(ctx, b, d, n)
	} else {
		result, values, err = c.measureNull(ctx, b, d, n)
	}
	if err != nil {
		return Sample{}, err
	}
	read, err := b.readBack(ctx, n)
	if err != nil {
		return Sample{}, err
	}
	if err := d.check(read, order, c.events, c.most > 0); err != nil {
		return Sample{}, err
	}
	values[ValueRate] = float64(result.events) / result.took.Seconds()
	values[ValueRelay] = result.perEvent(roleRelay, result.events)
	values[ValuePostgres] = result.perEvent(rolePostgres, result.events)
	values[ValueNATS] = result.perEvent(roleNATS, result.events)
	return Sample{Values: values, Events: len(read), Foreign: result.foreign}, nil
}

// measureRelay runs workers from the end of the pause until no event waits.
func (c drain) measureRelay(ctx context.Context, b *Bench, d *database, n *broker) (_ drained, _ map[string]float64, err error) {
	workers, err := b.startRelay(ctx, d, n, *c.relay)
	if err != nil {
		return drained{}, nil, err
	}
	defer func() { err = errors.Join(err, stopWorkers(workers)) }()
	before, err := allocations(ctx, workers)
	if err != nil {
		return drained{}, nil, err
	}
	result, err := c.timed(ctx, b, d, n, children(workers), func() (time.Time, error) {
		began, err := d.resume(ctx)
		if err == nil {
			err = n.nc.PublishMsg(nats.NewMsg(outbox.BellSubject("public")))
		}
		return began, err
	})
	if err != nil {
		return drained{}, nil, err
	}
	after, err := allocations(ctx, workers)
	if err != nil {
		return drained{}, nil, err
	}
	mib, err := memory(workers)
	return result, map[string]float64{ValueAllocations: (after - before) / float64(result.events), ValueMemory: mib}, err
}

// measureNull runs the null relay from its start signal until it has every acknowledgement.
func (c drain) measureNull(ctx context.Context, b *Bench, d *database, n *broker) (_ drained, _ map[string]float64, err error) {
	relay, err := b.startNull(ctx, d, n, c.atomic, false)
	if err != nil {
		return drained{}, nil, err
	}
	defer func() { err = errors.Join(err, relay.stop()) }()
	processors := b.roles(n.child, relay)
	before, err := processors.measure()
	if err != nil {
		return drained{}, nil, err
	}
	began := time.Now()
	if err := relay.send("go"); err != nil {
		return drained{}, nil, err
	}
	var answer nullAnswer
	if err := relay.receive(ctx, &answer); err != nil {
		return drained{}, nil, err
	}
	after, err := processors.measure()
	if err != nil {
		return drained{}, nil, err
	}
	took, err := n.lastStored(ctx, began)
	if err != nil {
		return drained{}, nil, err
	}
	mib, err := peakMemory(relay.pid())
	values := map[string]float64{ValueAllocations: float64(answer.Mallocs) / float64(max(1, answer.Published)), ValueMemory: mib}
	return drained{after.since(before), answer.Published, took}, values, err
}

// startNull starts a null relay and waits until it is ready.
func (b *Bench) startNull(ctx context.Context, d *database, n *broker, atomic, follow bool) (*child, error) {
	s := nullSettings{
		Database: d.url, NATS: n.url, Partitions: d.partitions, Atomic: atomic, Readers: min(4, d.partitions), Batch: 500, Flights: 8,
		JSON: d.json, Follow: follow,
	}
	if atomic {
		// As the relay does: a stream of one server stores batches one after the other.
		s.Batch, s.Flights = 990, 1
		if info := n.stream.CachedInfo(); info.Config.Replicas > 1 {
			s.Flights = 3
		}
		s.Batch = min(s.Batch, max(1, (4<<20)/(d.payload+300)))
	}
	relay, err := b.part(partNull, s)
	if err != nil {
		return nil, err
	}
	var ready nullAnswer
	if err := relay.receive(ctx, &ready); err != nil {
		return nil, errors.Join(err, relay.stop())
	}
	return relay, nil
}

// timed measures from a start until no event waits, or until c.most were published.
func (c drain) timed(ctx context.Context, b *Bench, d *database, n *broker, relays []*child, begin func() (time.Time, error)) (drained, error) {
	processors := b.roles(n.child, relays...)
	stored, err := n.stored(ctx)
	if err != nil {
		return drained{}, err
	}
	before, err := processors.measure()
	if err != nil {
		return drained{}, err
	}
	began, err := begin()
	if err != nil {
		return drained{}, err
	}
	goal := c.most
	if goal == 0 {
		goal = c.events
	}
	if err := n.await(ctx, stored+goal, relays); err != nil {
		return drained{}, err
	}
	if c.most > 0 {
		took := time.Since(began)
		after, err := processors.measure()
		if err != nil {
			return drained{}, err
		}
		events, err := n.events(ctx)
		return drained{after.since(before), events, took}, err
	}
	if err := until(ctx, lookEvery/2, func() (bool, error) { return d.empty(ctx) }); err != nil {
		return drained{}, err
	}
	after, err := processors.measure()
	if err != nil {
		return drained{}, err
	}
	took, err := n.lastStored(ctx, began)
	return drained{after.since(before), c.events, took}, err
}

// await waits until the stream holds goal messages; it fails where their number stalls.
func (n *broker) await(ctx context.Context, goal int, relays []*child) error {
	moved, before := time.Now(), -1
	return until(ctx, awaitEvery, func() (bool, error) {
		stored, err := n.stored(ctx)
		if err != nil || stored >= goal {
			return true, err
		}
		if stored != before {
			moved, before = time.Now(), stored
		}
		for _, c := range relays {
			if err := c.ended(); err != nil {
				return false, err
			}
		}
		if time.Since(moved) > stallPatience {
			return false, fmt.Errorf("the relay stands still at %d of %d messages: %s", stored, goal, relays[0].log)
		}
		return false, nil
	})
}

// lastStored returns the time from began until the broker stored the last event, by this machine's clock, which is the broker's.
func (n *broker) lastStored(ctx context.Context, began time.Time) (time.Duration, error) {
	last, err := n.stream.GetLastMsgForSubject(ctx, eventsFilter)
	if err != nil {
		return 0, fmt.Errorf("find the end of the stream: %w", err)
	}
	return last.Time.Sub(began), nil
}

// snapshot is the case of a backlog behind the dead rows of earlier events.
type snapshot struct {
	shape // its events are the earlier ones
	then  int
	hold  bool // hold an old snapshot, so that vacuum removes nothing
}

func (c snapshot) run(ctx context.Context, b *Bench) (_ Sample, err error) {
	d, err := b.database(ctx, c.shape)
	if err != nil {
		return Sample{}, err
	}
	if err := d.restore(ctx, true); err != nil {
		return Sample{}, err
	}
	n, err := b.broker(ctx, brokerShape{replicas: 1})
	if err != nil {
		return Sample{}, err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	relay := relayShape{order: ledger.ByPartition}
	workers, err := b.startRelay(ctx, d, n, relay)
	if err != nil {
		return Sample{}, err
	}
	defer func() { err = errors.Join(err, stopWorkers(workers)) }()
	if c.hold {
		release, err := d.hold(ctx)
		if err != nil {
			return Sample{}, err
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	first := drain{shape: c.shape}
	if _, err := first.timed(ctx, b, d, n, children(workers), func() (time.Time, error) { return d.resume(ctx) }); err != nil {
		return Sample{}, err
	}
	if !c.hold {
		if err := d.execute(ctx, `VACUUM outbox_ready`); err != nil {
			return Sample{}, err
		}
	}
	// The rows come in one transaction; its commit is the start.
	second := first
	second.events = c.then
	if err := d.execute(ctx, `UPDATE outbox_partitions SET paused_at = clock_timestamp()`, `CHECKPOINT`); err != nil {
		return Sample{}, err
	}
	if err := d.seed(ctx, c.events, c.events+c.then, "outbox_ready", func(int) {}); err != nil {
		return Sample{}, err
	}
	result, err := second.timed(ctx, b, d, n, children(workers), func() (time.Time, error) { return d.resume(ctx) })
	if err != nil {
		return Sample{}, err
	}
	read, err := b.readBack(ctx, n)
	if err != nil {
		return Sample{}, err
	}
	if err := d.check(read, relay.order, c.events+c.then, false); err != nil {
		return Sample{}, err
	}
	return Sample{Events: len(read), Foreign: result.foreign, Values: map[string]float64{
		ValueRate: float64(result.events) / result.took.Seconds(), ValueRelay: result.perEvent(roleRelay, result.events),
		ValuePostgres: result.perEvent(rolePostgres, result.events), ValueNATS: result.perEvent(roleNATS, result.events),
	}}, nil
}

// hold keeps a present snapshot until it is released.
func (d *database) hold(ctx context.Context) (release func() error, err error) {
	tx, err := d.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return nil, err
	}
	var one int
	if err := tx.QueryRow(ctx, `SELECT 1`).Scan(&one); err != nil {
		return nil, errors.Join(err, tx.Rollback(ctx))
	}
	return func() error { return tx.Rollback(context.WithoutCancel(ctx)) }, nil
}

func snapshotCases(c Config) []Case {
	s := c.shape()
	s.events = 800_000
	then := c.Events
	if c.Quick {
		s.events, then = 4000, 2000
	}
	const base = "postrider, dead rows removed"
	return []Case{
		{Name: base, relay: true, run: snapshot{shape: s, then: then}.run},
		{Name: "postrider, old snapshot held", Base: base, relay: true, run: snapshot{shape: s, then: then, hold: true}.run},
	}
}
