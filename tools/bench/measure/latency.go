package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/partition"
)

// systemCase is the case of a system whose handler reads from PostgreSQL.
type systemCase struct {
	System
	shape
	rate   int
	filled string // name of the database that is copied
}

func (c systemCase) run(ctx context.Context, b *Bench) (_ Sample, err error) {
	data, err := b.dataset(c.payload)
	if err != nil {
		return Sample{}, err
	}
	d, err := b.copied(ctx, c.filled, c.shape, data, func(u string) error {
		if err := c.Create(ctx, u); err != nil {
			return fmt.Errorf("tables of %s: %w", c.Name, err)
		}
		return nil
	})
	if err != nil {
		return Sample{}, err
	}
	defer func() {
		err = errors.Join(err, b.execute(context.WithoutCancel(ctx), `DROP DATABASE `+d.name()+` WITH (FORCE)`))
	}()
	var handler *child
	if c.Part != "" || len(c.Command) > 0 {
		if handler, err = b.startHandler(ctx, c.System, PeerSettings{Database: d.url}); err != nil {
			return Sample{}, err
		}
		defer func() { err = errors.Join(err, handler.stop()) }()
	}
	insert, err := c.Producer()
	if err != nil {
		return Sample{}, err
	}
	processors := b.roles(nil)
	if handler != nil {
		processors = b.roles(nil, handler)
	}
	return b.latency(ctx, d, c.rate, transaction{insert: insert}, processors, handler)
}

// outboxCase is the case of the relay, from a transaction to a subscriber of the stream.
type outboxCase struct {
	shape
	rate int
	bell bool // producers ring it after their commits
}

func (c outboxCase) run(ctx context.Context, b *Bench) (_ Sample, err error) {
	d, n, err := b.servers(ctx, c.shape, brokerShape{replicas: 1})
	if err != nil {
		return Sample{}, err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	workers, err := b.startRelay(ctx, d, n, relayShape{order: ledger.ByPartition})
	if err != nil {
		return Sample{}, err
	}
	defer func() { err = errors.Join(err, stopWorkers(workers)) }()
	handler, err := b.startHandler(ctx, System{Name: "subscriber", Part: partSubscriber}, PeerSettings{NATS: n.url})
	if err != nil {
		return Sample{}, err
	}
	defer func() { err = errors.Join(err, handler.stop()) }()
	producer, err := outbox.New(outbox.Config{})
	if err != nil {
		return Sample{}, err
	}
	how := transaction{insert: func(ctx context.Context, tx pgx.Tx, e PeerEvent) error {
		_, err := producer.AppendTx(ctx, tx, outbox.Event{ID: e.ID, StreamID: e.Stream, Type: e.Type, Payload: []byte(e.Payload)})
		return err
	}}
	if c.bell {
		how.committed = func() error { return n.nc.Publish(outbox.BellSubject("public"), nil) }
	}
	return b.latency(ctx, d, c.rate, how, b.roles(n.child, append(children(workers), handler)...), handler)
}

// plainTransactions is a system without a handler: the cost of the transactions alone.
func plainTransactions() System {
	return System{
		Name: "transactions alone",
		Create: func(ctx context.Context, database string) error {
			conn, err := pgx.Connect(ctx, database)
			if err != nil {
				return err
			}
			_, err = conn.Exec(ctx, `CREATE TABLE plain_events (id uuid PRIMARY KEY, payload json NOT NULL)`)
			return errors.Join(err, conn.Close(ctx))
		},
		Producer: func() (Insert, error) {
			return func(ctx context.Context, tx pgx.Tx, e PeerEvent) error {
				_, err := tx.Exec(ctx, `INSERT INTO plain_events (id, payload) VALUES ($1, $2)`, e.ID, e.Payload)
				return err
			}, nil
		},
	}
}

// latency measures one round, of which the handler must receive each event once. Without a handler it measures the cost
// of the transactions.
func (b *Bench) latency(ctx context.Context, d *database, rate int, how transaction, processors roles, handler *child) (Sample, error) {
	s := schedule{d: d, rate: rate, warmUp: b.cfg.warmUp(), length: b.cfg.Duration, how: how}
	made, used, err := s.run(ctx, processors)
	if err != nil {
		return Sample{}, err
	}
	measured := made[s.warm():]
	last := slices.MaxFunc(measured, func(x, y moment) int { return x.committed.Compare(y.committed) })
	took := max(last.committed.Sub(measured[0].due), s.length)
	sample := Sample{Events: len(made), Foreign: used.foreign, Values: map[string]float64{
		ValueRate: float64(len(measured)) / took.Seconds(), ValueReached: float64(len(measured)) / took.Seconds() / float64(rate),
		ValuePostgresShare: used.percent(rolePostgres), ValueRelayShare: used.percent(roleRelay), ValueNATSShare: used.percent(roleNATS),
	}}
	if sample.Values[ValueReached] < leastReached {
		b.say("only %.0f of %d transactions/s were reached: the latency is that of a machine that cannot do more", sample.Values[ValueRate], rate)
	}
	if handler == nil {
		return sample, nil
	}
	if err := handler.send(handlerTask{len(made)}); err != nil {
		return Sample{}, err
	}
	var report handlerReport
	if err := handler.receive(ctx, &report); err != nil {
		return Sample{}, err
	}
	at, err := once(made, report.Received)
	if err != nil {
		return Sample{}, err
	}
	latencies(sample.Values, measured, at[s.warm():])
	return sample, nil
}

// latencyScenario compares the relay and the systems, at each rate in turns.
func latencyScenario(systems []System) Scenario {
	return Scenario{"latency", "commit to receipt, with other systems at the same rate", ValueP99, "ms", func(c Config) []Case {
		s := c.shape()
		s.events = 0
		var cases []Case
		for _, rate := range c.Rates {
			suffix := fmt.Sprintf(", %d/s", rate)
			base := "postrider" + suffix
			cases = append(cases,
				Case{Name: base, relay: true, run: outboxCase{s, rate, true}.run},
				Case{Name: "postrider, no bell" + suffix, Base: base, relay: true, run: outboxCase{s, rate, false}.run})
			for i, system := range append(slices.Clone(systems), plainTransactions()) {
				cases = append(cases, Case{Name: system.Name + suffix, Base: base, run: systemCase{system, s, rate, "bench_system_" + strconv.Itoa(i)}.run})
			}
		}
		return cases
	}}
}

// schedule is a round of transactions of one event each, which are due at fixed times, independent of earlier ones.
type schedule struct {
	d              *database
	rate           int // transactions a second
	warmUp, length time.Duration
	how            transaction
}

// transaction is a producer's insert, and its act after the commit.
type transaction struct {
	insert    Insert
	committed func() error // may be nil
}

// moment holds the due time of a transaction, and that of its commit's return.
type moment struct {
	id             uuid.UUID
	due, committed time.Time
}

// warm returns the number of unmeasured transactions.
func (s schedule) warm() int { return s.count(s.warmUp) }

func (s schedule) count(length time.Duration) int {
	return s.rate * int(length/time.Millisecond) / 1000
}

// run keeps the schedule, and measures the processors from the end of the warm-up to the end.
func (s schedule) run(ctx context.Context, processors roles) (made []moment, used spent, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var conns []*pgx.Conn
	defer func() {
		for _, conn := range conns {
			err = errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
		}
	}()
	for range producers {
		conn, err := pgx.Connect(ctx, s.d.url)
		if err != nil {
			return nil, spent{}, fmt.Errorf("produce: %w", err)
		}
		conns = append(conns, conn)
	}
	made = make([]moment, s.warm()+s.count(s.length))
	failed := make(chan error, producers)
	began := time.Now()
	for i, conn := range conns {
		go func() {
			err := s.produce(ctx, conn, i, began, made)
			if err != nil {
				cancel()
			}
			failed <- err
		}()
	}
	used, err = between(ctx, processors, began.Add(s.warmUp), began.Add(s.warmUp+s.length))
	for range producers {
		err = errors.Join(<-failed, err)
	}
	return made, used, err
}

// between returns the use of processors from one time to another.
func between(ctx context.Context, processors roles, from, to time.Time) (spent, error) {
	var usages [2]usage
	for i, at := range []time.Time{from, to} {
		if err := wait(ctx, time.Until(at)); err != nil {
			return spent{}, err
		}
		var err error
		if usages[i], err = processors.measure(); err != nil {
			return spent{}, err
		}
	}
	return usages[1].since(usages[0]), nil
}

// produce commits every producers-th transaction, each when it is due or, where the one before took longer, right after it.
func (s schedule) produce(ctx context.Context, conn *pgx.Conn, which int, began time.Time, made []moment) error {
	for n := which; n < len(made); n += producers {
		e := s.d.data.at(n)
		stream := e.stream + "@" + strconv.Itoa(which) // its own, so that producers do not wait for each other
		one := PeerEvent{
			Sequence: int64(n + 1), ID: e.id, Stream: stream, Version: e.version, Type: e.kind,
			Partition: partition.Of(stream, partition.Count(s.d.partitions)), Payload: string(e.payload),
		}
		due := began.Add(time.Duration(float64(n) / float64(s.rate) * float64(time.Second)))
		if err := wait(ctx, time.Until(due)); err != nil {
			return err
		}
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return s.how.insert(ctx, tx, one) })
		if err != nil {
			return fmt.Errorf("produce: %w", err)
		}
		made[n] = moment{e.id, due, time.Now()}
		if s.how.committed != nil {
			if err := s.how.committed(); err != nil {
				return fmt.Errorf("after a commit: %w", err)
			}
		}
	}
	return nil
}

// once returns when each event was received, in Unix nanoseconds, or ErrUnproved unless each was received exactly once.
func once(made []moment, received []receipt) ([]int64, error) {
	index := make(map[uuid.UUID]int, len(made))
	for i, m := range made {
		index[m.id] = i
	}
	at := make([]int64, len(made))
	lost, repeated, unknown := len(made), 0, 0
	for _, r := range received {
		i, known := index[r.ID]
		switch {
		case !known:
			unknown++
		case at[i] != 0:
			repeated++
		default:
			at[i] = r.At
			lost--
		}
	}
	if lost+repeated+unknown > 0 {
		return nil, fmt.Errorf("%w: of %d events lost %d, repeated %d; unknown %d", ErrUnproved, len(made), lost, repeated, unknown)
	}
	return at, nil
}

// latencies sets the values of latency, in milliseconds. A receipt before the commit has returned to the producer counts as 0.
func latencies(values map[string]float64, made []moment, at []int64) {
	commit, due := make([]float64, len(made)), make([]float64, len(made))
	for i, m := range made {
		commit[i] = float64(max(0, at[i]-m.committed.UnixNano())) / float64(time.Millisecond)
		due[i] = float64(max(0, at[i]-m.due.UnixNano())) / float64(time.Millisecond)
	}
	slices.Sort(commit)
	slices.Sort(due)
	values[ValueP50], values[ValueP99], values[ValueMax] = quantile(commit, 0.5), quantile(commit, 0.99), quantile(commit, 1)
	values[ValueDueP50], values[ValueDueP99] = quantile(due, 0.5), quantile(due, 0.99)
}
