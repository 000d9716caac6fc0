package measure

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/outbox"
)

// producing is the case of transactions of one event each, as fast as they go.
type producing struct {
	shape
	connections int
	audit       bool // the event alone, without its outbox row
}

func (c producing) run(ctx context.Context, b *Bench) (_ Sample, err error) {
	d, err := b.database(ctx, c.shape)
	if err != nil {
		return Sample{}, err
	}
	if err := d.restore(ctx, false); err != nil {
		return Sample{}, err
	}
	producer, err := outbox.New(outbox.Config{})
	if err != nil {
		return Sample{}, err
	}
	var conns []*pgx.Conn
	defer func() {
		for _, conn := range conns {
			err = errors.Join(err, conn.Close(ctx))
		}
	}()
	for range c.connections {
		conn, err := pgx.Connect(ctx, d.url)
		if err != nil {
			return Sample{}, fmt.Errorf("produce: %w", err)
		}
		conns = append(conns, conn)
	}
	work := func(length time.Duration, pass string) (int, error) {
		until, cancel := context.WithTimeout(ctx, length)
		defer cancel()
		var count atomic.Int64
		failed := make(chan error, len(conns))
		for i, conn := range conns {
			go func() { failed <- c.produce(until, conn, producer, d.data, pass+strconv.Itoa(i), &count) }()
		}
		var all error
		for range conns {
			all = errors.Join(all, <-failed)
		}
		return int(count.Load()), errors.Join(all, ctx.Err())
	}
	if _, err := work(b.cfg.warmUp(), "warm"); err != nil {
		return Sample{}, err
	}
	return c.measure(ctx, b, d, work)
}

func (c producing) measure(ctx context.Context, b *Bench, d *database, work func(time.Duration, string) (int, error)) (Sample, error) {
	const written = `SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn`
	var first, last float64
	if err := d.pool.QueryRow(ctx, written).Scan(&first); err != nil {
		return Sample{}, fmt.Errorf("position of the log: %w", err)
	}
	processors := b.roles(nil)
	before, err := processors.measure()
	if err != nil {
		return Sample{}, err
	}
	transactions, err := work(b.cfg.Duration, "")
	if err != nil {
		return Sample{}, err
	}
	after, err := processors.measure()
	if err != nil {
		return Sample{}, err
	}
	if err := d.pool.QueryRow(ctx, written).Scan(&last); err != nil {
		return Sample{}, fmt.Errorf("position of the log: %w", err)
	}
	used := after.since(before)
	return Sample{Foreign: used.foreign, Values: map[string]float64{
		ValueTransactions: float64(transactions) / used.wall.Seconds(),
		ValueWAL:          (last - first) / float64(max(1, transactions)),
		ValuePostgres:     used.perEvent(rolePostgres, transactions),
	}}, nil
}

// produce appends until the context ends; a transaction that is begun is finished.
func (c producing) produce(ctx context.Context, conn *pgx.Conn, producer *outbox.Producer, data *dataset, name string, count *atomic.Int64) error {
	whole := context.WithoutCancel(ctx)
	for n := 0; ctx.Err() == nil; n++ {
		e := data.at(n)
		var batch pgx.Batch
		err := producer.QueueAppend(&batch, func([]outbox.Appended) error { return nil }, outbox.Event{
			StreamID: e.stream + "@" + name, Type: e.kind, Payload: e.payload, OccurredAt: e.occurred, AuditOnly: c.audit,
		})
		if err == nil {
			err = conn.SendBatch(whole, &batch).Close()
		}
		if err != nil {
			return fmt.Errorf("produce: %w", err)
		}
		count.Add(1)
	}
	return nil
}

// unheard is the case of transactions that do not concern the outbox, as fast as they go, beside a worker.
type unheard struct {
	shape
	connections int
}

func (c unheard) run(ctx context.Context, b *Bench) (_ Sample, err error) {
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
	processors, sender := b.roles(n.child, children(workers)...), 0
	if c.log == logRings {
		if sender, err = d.sender(ctx); err != nil {
			return Sample{}, err
		}
	}
	if _, err := c.others(ctx, d, b.cfg.warmUp()); err != nil {
		return Sample{}, err
	}
	sent, err := senderUse(sender)
	if err != nil {
		return Sample{}, err
	}
	before, err := processors.measure()
	if err != nil {
		return Sample{}, err
	}
	transactions, err := c.others(ctx, d, b.cfg.Duration)
	if err != nil {
		return Sample{}, err
	}
	after, err := processors.measure()
	if err != nil {
		return Sample{}, err
	}
	sentAfter, err := senderUse(sender)
	if err != nil {
		return Sample{}, err
	}
	used := after.since(before)
	return Sample{Foreign: used.foreign, Values: map[string]float64{
		ValueTransactions: float64(transactions) / used.wall.Seconds(), ValuePostgres: used.perEvent(rolePostgres, transactions),
		ValueRelay: used.perEvent(roleRelay, transactions), ValueRelayShare: used.percent(roleRelay),
		ValueSender: float64((sentAfter - sent).Microseconds()) / float64(max(1, transactions)),
	}}, nil
}

// senderUse returns the processor time of the process that decodes the log; 0 without one.
func senderUse(pid int) (time.Duration, error) {
	if pid == 0 {
		return 0, nil
	}
	p, err := readProcess(pid)
	return p.own, err
}

// others insert rows into another table, one in each transaction.
func (c unheard) others(ctx context.Context, d *database, length time.Duration) (int, error) {
	until, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var count atomic.Int64
	failed := make(chan error, c.connections)
	for range c.connections {
		go func() {
			failed <- d.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
				for until.Err() == nil {
					if _, err := conn.Exec(ctx, `INSERT INTO bench_others (payload) VALUES ($1)`, d.data.at(0).payload); err != nil {
						return fmt.Errorf("others: %w", err)
					}
					count.Add(1)
				}
				return nil
			})
		}()
	}
	var all error
	for range c.connections {
		all = errors.Join(all, <-failed)
	}
	return int(count.Load()), errors.Join(all, ctx.Err())
}

func producerCases(c Config) []Case {
	counts := []int{1, 8, 32}
	if c.Quick {
		counts = []int{2}
	}
	s := c.shape()
	s.events = 0
	var cases []Case
	for _, n := range counts {
		base := fmt.Sprintf("event alone, %d connections", n)
		cases = append(cases,
			Case{Name: base, run: producing{shape: s, connections: n, audit: true}.run},
			Case{Name: fmt.Sprintf("event and outbox row, %d connections", n), Base: base, run: producing{shape: s, connections: n}.run})
	}
	return cases
}
