package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/postrider/postrider/internal/ledger"
)

// leastReached is the share of its rate below which a steady case reports that.
const leastReached = 0.95

// steady is the case of a steady rate, from commit to receipt.
type steady struct {
	shape
	broker brokerShape
	relay  *relayShape // nil is the null relay
	rate   int
	silent bool // producers do not ring
}

func (c steady) run(ctx context.Context, b *Bench) (_ Sample, err error) {
	d, n, err := b.servers(ctx, c.shape, c.broker)
	if err != nil {
		return Sample{}, err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	order := ledger.ByStream // the null relay does not wait for writers
	relays := []*child{nil}
	if c.relay == nil {
		relay, err := b.startNull(ctx, d, n, true, true)
		if err != nil {
			return Sample{}, err
		}
		defer func() { err = errors.Join(err, relay.stop()) }()
		relays[0] = relay
	} else {
		workers, err := b.startRelay(ctx, d, n, *c.relay)
		if err != nil {
			return Sample{}, err
		}
		defer func() { err = errors.Join(err, stopWorkers(workers)) }()
		relays, order = children(workers), c.relay.order
		if c.log == logRings {
			if _, err := d.sender(ctx); err != nil {
				return Sample{}, err
			}
		}
	}
	return c.measure(ctx, b, d, n, order, relays)
}

func (c steady) measure(ctx context.Context, b *Bench, d *database, n *broker, order ledger.Ordering, relays []*child) (_ Sample, err error) {
	l, err := newLoad(d, n, order, c.rate)
	if err != nil {
		return Sample{}, err
	}
	l.silent = c.silent
	stop, err := l.subscribe(ctx)
	if err != nil {
		return Sample{}, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if _, err := l.phase(ctx, b.cfg.warmUp()); err != nil {
		return Sample{}, err
	}
	processors := b.roles(n.child, relays...)
	before, err := processors.measure()
	if err != nil {
		return Sample{}, err
	}
	r, err := l.phase(ctx, b.cfg.Duration)
	if err != nil {
		return Sample{}, err
	}
	after, err := processors.measure()
	if err != nil {
		return Sample{}, err
	}
	used, writers := after.since(before), writersWait(l.commits)
	reached := r.EventsPerSecond / float64(c.rate)
	if reached < leastReached {
		b.say("only %.0f of %d events/s were reached: the latency is that of a machine that cannot do more", r.EventsPerSecond, c.rate)
	}
	return Sample{Events: r.Received, Foreign: used.foreign, Values: map[string]float64{
		ValueP50: 1000 * r.LatencyP50, ValueP99: 1000 * r.LatencyP99, ValueP999: 1000 * r.LatencyP999, ValueRate: r.EventsPerSecond, ValueReached: reached,
		ValueWritersP50: quantile(writers, 0.5), ValueWritersP99: quantile(writers, 0.99),
		ValueRelayShare: used.percent(roleRelay), ValuePostgresShare: used.percent(rolePostgres), ValueNATSShare: used.percent(roleNATS),
	}}, nil
}

func steadyCases(c Config) []Case {
	rates := []int{100, 1000, 5000, 20_000}
	brokers := []brokerShape{{replicas: 1}, {replicas: 3}}
	if c.Quick {
		rates, brokers = []int{200}, brokers[:1]
	}
	s := c.shape()
	s.events = 0
	var cases []Case
	add := func(name, base string, on steady) {
		cases = append(cases, Case{Name: name, Base: base, relay: on.relay != nil, run: on.run})
	}
	for _, on := range brokers {
		for _, rate := range rates {
			suffix := fmt.Sprintf(", %d/s, %s", rate, on)
			add(nullAtomic+suffix, "", steady{shape: s, broker: on, rate: rate})
			add("postrider, by partition"+suffix, nullAtomic+suffix, steady{shape: s, broker: on, rate: rate, relay: &relayShape{order: ledger.ByPartition}})
		}
	}
	many := s
	many.partitions = 1000
	add("postrider, 1000 mostly idle partitions, 100/s", "", steady{
		shape: many, broker: brokerShape{replicas: 1}, rate: 100, relay: &relayShape{order: ledger.ByPartition},
	})
	return cases
}

// with returns the shape of a database without events, whose server's log is used.
func (c Config) with(use logUse) shape {
	s := c.shape()
	s.events, s.log = 0, use
	return s
}

// bellCases measure the wait of events whose producers do not ring.
func bellCases(c Config) []Case {
	rates := []int{100, 1000}
	if c.Quick {
		rates = []int{200}
	}
	var cases []Case
	for _, rate := range rates {
		add := func(name, base string, use logUse, silent bool) {
			on := steady{
				shape: c.with(use), broker: brokerShape{replicas: 1}, relay: &relayShape{order: ledger.ByPartition}, rate: rate, silent: silent,
			}
			cases = append(cases, Case{Name: name, Base: base, relay: true, run: on.run})
		}
		polls := fmt.Sprintf("polls, %d/s", rate)
		add(polls, "", logDecodable, true)
		add(fmt.Sprintf("the log rings, %d/s", rate), polls, logRings, true)
		add(fmt.Sprintf("producers ring, %d/s", rate), polls, logDecodable, false)
	}
	return cases
}

// bellCostCases measure the costs of the bell from the log for all others.
func bellCostCases(c Config) []Case {
	connections := 8
	if c.Quick {
		connections = 2
	}
	const appends, others = "appends", "transactions of others"
	return []Case{
		{Name: appends, run: producing{shape: c.with(logDecodable), connections: connections}.run},
		{Name: appends + ", each with a message", Base: appends, run: producing{shape: c.with(logMessages), connections: connections}.run},
		{Name: others, relay: true, run: unheard{shape: c.with(logDecodable), connections: connections}.run},
		{Name: others + ", and the log rings", Base: others, relay: true, run: unheard{shape: c.with(logRings), connections: connections}.run},
	}
}

// idle is the case of a relay without events.
type idle struct {
	shape
	relay *relayShape // nil: the servers alone
}

// idleSettle is the time that a relay has after it owns its partitions.
const idleSettle = 3 * time.Second

func (c idle) run(ctx context.Context, b *Bench) (_ Sample, err error) {
	d, n, err := b.servers(ctx, c.shape, brokerShape{replicas: 1})
	if err != nil {
		return Sample{}, err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	var relays []*child
	if c.relay != nil {
		workers, err := b.startRelay(ctx, d, n, *c.relay)
		if err != nil {
			return Sample{}, err
		}
		defer func() { err = errors.Join(err, stopWorkers(workers)) }()
		relays = children(workers)
	}
	if err := wait(ctx, min(idleSettle, b.cfg.Duration)); err != nil {
		return Sample{}, err
	}
	processors := b.roles(n.child, relays...)
	before, err := processors.measure()
	if err != nil {
		return Sample{}, err
	}
	if err := wait(ctx, b.cfg.Duration); err != nil {
		return Sample{}, err
	}
	after, err := processors.measure()
	if err != nil {
		return Sample{}, err
	}
	used := after.since(before)
	return Sample{Foreign: used.foreign, Values: map[string]float64{
		ValueRelayShare: used.percent(roleRelay), ValuePostgresShare: used.percent(rolePostgres), ValueNATSShare: used.percent(roleNATS),
	}}, nil
}

func wait(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func idleCases(c Config) []Case {
	counts := []int{64, 1000}
	if c.Quick {
		counts = counts[:1]
	}
	relay := &relayShape{order: ledger.ByPartition}
	var cases []Case
	for _, n := range counts {
		s := c.shape()
		s.partitions, s.events = n, 0
		base := fmt.Sprintf("servers alone, %d partitions", n)
		cases = append(cases,
			Case{Name: base, run: idle{shape: s}.run},
			Case{Name: fmt.Sprintf("postrider, %d idle partitions", n), relay: true, run: idle{shape: s, relay: relay}.run})
	}
	return cases
}
