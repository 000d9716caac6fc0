package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

const chartMinutes = 60

// defaultBacklogShare lets counting take one percent of the time.
const defaultBacklogShare = 0.01

// Config names the stores that a Source is composed of.
type Config struct {
	// Workers, Leases and Deliveries are read, never written. Required.
	Workers    *heartbeat.Store
	Leases     *lease.Store
	Deliveries *pgstore.Store
	// Strategy is the workers' assignment; it gives the number of partitions that each should own. Required.
	Strategy partition.Strategy
	// HeartbeatTTL is the workers' lifetime of a heartbeat, from which its age follows. Defaults to unknown: no age is shown.
	HeartbeatTTL time.Duration
	// Own returns the conditions of this process, and Self is its worker: the process knows them before the database does. Default to
	// none.
	Own  func() []condition.Condition
	Self uuid.UUID
	// Alone returns the worker of this process where it delivers without leases, and stands in no table; nil: it does not.
	Alone func() heartbeat.Worker
	// BacklogShare bounds the share of the time spent on counts of the backlog, above 0 and up to 1: at 0.01 a count of 200 ms is repeated after
	// 20 s. Reads of the oldest pending row's age, of a millisecond or so, have as much; the watermark has a quarter of that share. Defaults to
	// 0.01.
	BacklogShare float64
	// Closing ends reads without a caller, so that their pools can be closed; nil: they end within a minute.
	Closing <-chan struct{}
}

// Validate names the first field whose value is refused.
func (c Config) Validate() error {
	switch {
	case c.Workers == nil:
		return errors.New("ui: SourceConfig.Workers is nil")
	case c.Leases == nil:
		return errors.New("ui: SourceConfig.Leases is nil")
	case c.Deliveries == nil:
		return errors.New("ui: SourceConfig.Deliveries is nil")
	case c.HeartbeatTTL < 0:
		return fmt.Errorf("ui: SourceConfig.HeartbeatTTL %v is negative", c.HeartbeatTTL)
	case c.BacklogShare < 0 || c.BacklogShare > 1:
		return fmt.Errorf("ui: SourceConfig.BacklogShare %v is not within 0 and 1", c.BacklogShare)
	}
	if _, err := partition.ParseStrategy(string(c.Strategy)); err != nil {
		return fmt.Errorf("ui: SourceConfig.Strategy: %w", err)
	}
	return nil
}

const latencyTimeout = 2 * time.Second

// watermarkTimeout bounds the read of the watermark. That asks the events relation for its highest sequence, which takes a view
// long.
const watermarkTimeout = 2 * time.Second

// watermarkPause bounds the age of a shown watermark: after one slow read an outdated wait would be shown for minutes.
const watermarkPause = 10 * time.Second

// faultsPause bounds the age of shown faults of writes: they come and go with people's changes of tables. faultsWait bounds a snapshot's
// wait for the first ones: tables may be locked.
const (
	faultsPause = 30 * time.Second
	faultsShare = 0.001
	faultsWait  = time.Second
)

// storeSource reads the stores. Membership and leases are small and read each time. Counts grow with the backlog, and a read of the watermark
// may hang on the events relation: both are repeated less often the longer they take.
type storeSource struct {
	config    Config
	backlog   paced[pgstore.Backlog]
	oldest    paced[pgstore.Oldest]
	named     paced[pgstore.Named]
	reader    oldestReader
	watermark paced[Watermark]
	latency   paced[*Latency]
	published paced[published]
	faults    paced[[]pgstore.Violation]
	recent    recentReader
}

// New composes the read sides of the packages that own the tables.
func New(config Config) (Source, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config.BacklogShare = cmp.Or(config.BacklogShare, defaultBacklogShare)
	over := config.Closing
	return &storeSource{
		config: config, backlog: paced[pgstore.Backlog]{over: over}, oldest: paced[pgstore.Oldest]{over: over}, named: paced[pgstore.Named]{over: over},
		watermark: paced[Watermark]{most: watermarkPause, over: over}, latency: paced[*Latency]{over: over}, published: paced[published]{over: over},
		faults: paced[[]pgstore.Violation]{most: faultsPause, over: over},
	}, nil
}

func (s *storeSource) Snapshot(ctx context.Context) (Snapshot, error) {
	workers, err := s.config.Workers.Snapshot(ctx)
	if err != nil {
		return Snapshot{}, fmt.Errorf("ui: %w", err)
	}
	leases, err := s.config.Leases.Snapshot(ctx)
	if err != nil {
		return Snapshot{}, fmt.Errorf("ui: %w", err)
	}
	s.takeAlone(&workers, leases)
	minutes, err := s.config.Deliveries.Throughput(ctx, chartMinutes)
	if err != nil {
		return Snapshot{}, fmt.Errorf("ui: %w", err)
	}
	backlog, err := s.backlog.get(ctx, s.config.BacklogShare, func(ctx context.Context) (pgstore.Backlog, error) {
		return s.reader.count(ctx, s.config.Deliveries)
	})
	if err != nil {
		return Snapshot{}, fmt.Errorf("ui: %w", err)
	}
	oldest, err := s.oldest.get(ctx, s.config.BacklogShare, func(ctx context.Context) (pgstore.Oldest, error) {
		return s.reader.read(ctx, s.config.Deliveries)
	})
	if err != nil {
		return Snapshot{}, fmt.Errorf("ui: %w", err)
	}
	watermark, err := s.watermark.get(ctx, s.config.BacklogShare/4, func(ctx context.Context) (Watermark, error) {
		return s.readWatermark(ctx, leases)
	})
	if err != nil {
		return Snapshot{}, fmt.Errorf("ui: %w", err)
	}
	latency, err := s.latency.get(ctx, s.config.BacklogShare/4, s.readLatency)
	if err != nil {
		return Snapshot{}, fmt.Errorf("ui: %w", err)
	}
	snapshot := compose(workers, leases, withOldest(backlog, oldest), minutes, s.config.Strategy, s.config.HeartbeatTTL)
	if s.config.Alone != nil { // its worker is the last
		snapshot.Workers[len(snapshot.Workers)-1].Alone = true
	}
	if p, err := s.published.get(ctx, s.config.BacklogShare, func(ctx context.Context) (published, error) {
		return s.recent.look(ctx, s.config.Deliveries)
	}); err == nil {
		snapshot.PerSecond, snapshot.Seconds = &p.perSecond, p.seconds
	}
	snapshot.Watermark, snapshot.Latency, snapshot.Named = watermark, latency, s.readNamed(ctx)
	if snapshot.ReadOnly, err = s.config.Deliveries.ReadOnly(ctx); err != nil {
		return Snapshot{}, fmt.Errorf("ui: %w", err)
	}
	snapshot.WriteFaults = s.readFaults(ctx)
	if s.config.Own != nil {
		snapshot.own(s.config.Self, s.config.Own())
	}
	return snapshot, nil
}

// takeAlone shows a worker without leases as the owner of all free partitions.
func (s *storeSource) takeAlone(workers *heartbeat.Snapshot, leases lease.Snapshot) {
	if s.config.Alone == nil {
		return
	}
	self := s.config.Alone()
	self.Left = max(s.config.HeartbeatTTL, time.Second)
	self.HeartbeatUntil = workers.At.Add(self.Left)
	workers.Workers = append(workers.Workers, self)
	for i, row := range leases.Rows {
		if !row.Held() {
			leases.Rows[i].Owner, leases.Rows[i].Until, leases.Rows[i].Left = self.ID, self.HeartbeatUntil, self.Left
		}
	}
}

func (s *storeSource) Ownership(ctx context.Context, q lease.HistoryQuery) (lease.History, error) {
	history, err := s.config.Leases.History(ctx, q)
	if err != nil {
		return lease.History{}, fmt.Errorf("ui: %w", err)
	}
	return history, nil
}

// readFaults returns nil where the faults are unknown.
func (s *storeSource) readFaults(ctx context.Context) []pgstore.Violation {
	soon, cancel := context.WithTimeout(ctx, faultsWait)
	defer cancel()
	faults, err := s.faults.get(soon, faultsShare, s.config.Deliveries.WriteFaults)
	if err != nil {
		return nil
	}
	return faults
}

// readNamed waits for nothing: the first answer may come with a later snapshot.
func (s *storeSource) readNamed(ctx context.Context) *pgstore.Named {
	soon, cancel := context.WithTimeout(ctx, pacedWait)
	defer cancel()
	named, err := s.named.get(soon, s.config.BacklogShare, func(ctx context.Context) (pgstore.Named, error) {
		return s.reader.named(ctx, s.config.Deliveries)
	})
	if err != nil {
		return nil
	}
	return &named
}

// readWatermark comes after the read of the leases: then a partition delivered beyond the watermark was not delivered in its order. Without
// an answer the rest of the snapshot is still worth showing.
func (s *storeSource) readWatermark(ctx context.Context, leases lease.Snapshot) (Watermark, error) {
	limited, cancel := context.WithTimeout(ctx, watermarkTimeout)
	defer cancel()
	stall, err := s.config.Deliveries.Watermark(limited)
	switch {
	case ctx.Err() != nil:
		return Watermark{}, err
	case err != nil:
		return Watermark{Err: err}, nil
	}
	return newWatermark(stall, leases), nil
}

// readLatency returns nil where the events relation has no recorded_at, or the role may not read it: the rest of the snapshot is still worth
// showing.
func (s *storeSource) readLatency(ctx context.Context) (*Latency, error) {
	limited, cancel := context.WithTimeout(ctx, latencyTimeout)
	defer cancel()
	l, err := s.config.Deliveries.Latency(limited)
	switch {
	case ctx.Err() != nil:
		return nil, err
	case err != nil:
		return nil, nil // unknown is an answer
	}
	latency := Latency(l)
	return &latency, nil
}

// newWatermark counts time only while a transaction is open: a worker notes its holders, and without workers nobody removes the
// note.
func newWatermark(stall pgstore.Stall, leases lease.Snapshot) Watermark {
	w := Watermark{Safe: stall.Safe, Highest: stall.Highest}
	for _, row := range leases.Rows {
		w.Unused = w.Unused || row.Delivered > stall.Safe
	}
	for _, h := range stall.Holders {
		holder := Holder{PID: h.PID, GID: h.GID, Application: h.Application, State: h.State}
		if h.State != "" || h.PID == 0 {
			holder.Age = &h.Age
		}
		w.Holders = append(w.Holders, holder)
	}
	if len(w.Holders) > 0 {
		w.Waiting = stall.Waiting
	}
	return w
}

// compose joins the stores' results. It is a function of its arguments.
func compose(workers heartbeat.Snapshot, leases lease.Snapshot, backlog pgstore.Backlog, minutes []pgstore.Minute,
	strategy partition.Strategy, heartbeatTTL time.Duration,
) Snapshot {
	// The latest skips stores without a row to read a time from.
	at := slices.MaxFunc([]time.Time{workers.At, leases.At, backlog.At}, time.Time.Compare)
	snapshot := Snapshot{At: at, CountedAt: backlog.At, Frozen: leases.Frozen}

	owners := leases.Owners()
	plan := partition.Assign(strategy, partition.Snapshot{Workers: workers.Members(), Count: partition.Count(len(leases.Rows)), Owners: owners})
	owned := map[uuid.UUID]int{}
	for _, owner := range owners {
		owned[owner]++
	}
	for _, w := range workers.Workers {
		worker := Worker{
			ID: w.ID, Hostname: w.Hostname, PID: w.PID, Version: w.Version, State: workerState(w),
			StartedAt: w.StartedAt, HeartbeatUntil: w.HeartbeatUntil, HeartbeatLeft: w.Left,
			DrainRequestedAt: w.DrainRequestedAt, Condition: w.Condition, Canary: w.Canary,
			Owned: owned[w.ID], Desired: len(plan[w.ID]),
		}
		if heartbeatTTL > 0 {
			worker.HeartbeatAge = new(max(0, heartbeatTTL-w.Left))
		}
		snapshot.Workers = append(snapshot.Workers, worker)
	}

	counts := make(map[partition.ID]pgstore.PartitionBacklog, len(backlog.Partitions))
	for _, b := range backlog.Partitions {
		counts[b.Partition] = b
	}
	for _, row := range leases.Rows {
		count := counts[row.Partition]
		snapshot.Partitions = append(snapshot.Partitions, Partition{
			Number: int(row.Partition), Owner: row.Owner, LeaseUntil: row.Until, LeaseLeft: row.Left, Ahead: row.Ahead,
			Epoch: row.Epoch, Delivered: row.Delivered, PausedAt: row.PausedAt, Crashes: row.Crashes,
			Pending: count.Pending, Failed: count.Failed, Blocked: count.Blocked, Dead: count.Dead,
			Scheduled: count.Scheduled, BlockedStreams: count.BlockedStreams, OldestPending: count.OldestPending,
		})
	}
	for _, m := range minutes {
		snapshot.Minutes = append(snapshot.Minutes, Minute(m))
	}
	return snapshot
}

func workerState(w heartbeat.Worker) WorkerState {
	switch {
	case !w.Live():
		return WorkerStale
	case w.State == heartbeat.Draining:
		return WorkerDraining
	default:
		return WorkerActive
	}
}

// withOldest replaces the counts' ages by younger ones.
func withOldest(b pgstore.Backlog, oldest pgstore.Oldest) pgstore.Backlog {
	if !oldest.At.After(b.At) {
		return b
	}
	waited := map[partition.ID]time.Duration{}
	for _, p := range oldest.Partitions {
		if p.Pending {
			waited[p.Partition] = max(p.Waited, time.Microsecond)
		}
	}
	b.Partitions = slices.Clone(b.Partitions) // several snapshots share one count
	for i := range b.Partitions {
		b.Partitions[i].OldestPending = waited[b.Partitions[i].Partition]
	}
	return b
}
