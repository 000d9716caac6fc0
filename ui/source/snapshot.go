package source

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/lease"
)

// Source reads the state that the monitor shows.
type Source interface {
	// Snapshot reads the state once. It must honour the context's deadline.
	Snapshot(ctx context.Context) (Snapshot, error)
	// Ownership reads the stored changes of ownership.
	Ownership(ctx context.Context, q lease.HistoryQuery) (lease.History, error)
}

// Snapshot is the cluster at one moment.
type Snapshot struct {
	// At is the snapshot's time by the database clock.
	At time.Time
	// CountedAt is the time of the partitions' counts, by the same clock. A source may count a large backlog less often than it reads the rest;
	// zero: the counts are as recent as At.
	CountedAt time.Time
	// Workers are sorted by id, stale ones included.
	Workers []Worker
	// Partitions are sorted by number.
	Partitions []Partition
	// Minutes are consecutive one-minute buckets, oldest first, zero without events. The last one is still filling.
	Minutes []Minute
	// Watermark is the sequence up to which the order is decided.
	Watermark Watermark
	// Latency is that of recent events; nil: unknown.
	Latency *Latency
	// PerSecond is the rate of events published in the last ten seconds; nil: unknown.
	PerSecond *float64
	// Seconds are the consecutive whole seconds of the last five minutes, oldest first: fewer until the source has read for so long, none where
	// unknown.
	Seconds []Second
	// Named holds dead and oldest pending rows by topic and by type; nil: not yet known.
	Named *pgstore.Named
	// Frozen says that nobody may own a partition now, as their number changes.
	Frozen bool
	// ReadOnly says that nobody can write to the database.
	ReadOnly bool
	// WriteFaults name writes that fail or have no events, at most half a minute old; nil: unknown.
	WriteFaults []pgstore.Violation
	// Own are the conditions of the reading process, if it is a worker.
	Own []condition.Condition
}

// Second counts the events published in one second, which begins at At.
type Second struct {
	At        time.Time
	Published int64
}

// WorkerState is the activity of a worker.
type WorkerState string

// The states of a worker.
const (
	// WorkerActive beats and takes partitions.
	WorkerActive WorkerState = "active"
	// WorkerDraining beats, finishes its work and takes no partition.
	WorkerDraining WorkerState = "draining"
	// WorkerStale has missed its heartbeat.
	WorkerStale WorkerState = "stale"
)

// Worker is one process that delivers.
type Worker struct {
	ID       uuid.UUID
	Hostname string
	PID      int
	Version  string
	State    WorkerState
	// StartedAt and HeartbeatUntil are database times.
	StartedAt, HeartbeatUntil time.Time
	// Alone says that the worker delivers without leases: it stands in no table, so nobody can drain it.
	Alone bool
	// DrainRequestedAt is the time of an operator's request to drain; nil: none.
	DrainRequestedAt *time.Time
	// Condition is the reason why the worker does not deliver; nil: none.
	Condition *condition.Condition
	// Canary is the fault of the worker's last canary; "": none.
	Canary string
	// HeartbeatLeft is the time until the heartbeat runs out by the database clock; negative once it has.
	HeartbeatLeft time.Duration
	// HeartbeatAge is the time since the last heartbeat, or nil when the source does not know the lifetime of a heartbeat.
	HeartbeatAge *time.Duration
	// Owned is the number of the worker's live leases; Desired its number by the assignment.
	Owned, Desired int
}

// Partition is one share of the outbox: its lease and its backlog.
type Partition struct {
	Number int
	// Owner holds the lease, or held it last when LeaseLeft is not positive; uuid.Nil when the lease is free.
	Owner uuid.UUID
	// LeaseUntil is a database time; LeaseLeft is measured by its clock.
	LeaseUntil time.Time
	LeaseLeft  time.Duration
	// Ahead says that the lease ends later than a new one would: the database's clock has stepped back since it was made.
	Ahead bool
	Epoch int64
	// Delivered is the highest global sequence the partition has recorded.
	Delivered int64
	// PausedAt is nil unless the partition is paused: by an operator, or by a worker since earlier owners ended over its messages.
	PausedAt *time.Time
	// Crashes is as in lease.Progress.
	Crashes int
	// Pending counts rows that may be delivered now; Failed those waiting for another attempt; Blocked those behind a failed or dead row;
	// Dead those given up; Scheduled those not yet due.
	Pending, Failed, Blocked, Dead, Scheduled int64
	// BlockedStreams is the number of streams that the blocked rows belong to.
	BlockedStreams int64
	// OldestPending is the age of the oldest pending row; 0 without one. It is read more often than the counts, so the two may
	// disagree.
	OldestPending time.Duration
}

// Owned reports whether somebody holds a lease that has not run out.
func (p Partition) Owned() bool { return p.Owner != uuid.Nil && p.LeaseLeft > 0 }

// Minute is one bucket of the throughput history.
type Minute struct {
	// At is the bucket's first instant.
	At time.Time
	// Published and Skipped count events, Failed attempts. Retried counts those of the published that took more than one attempt.
	Published, Failed, Retried, Skipped int64
}

// Latency is the time of events of the last five minutes from their recording, or their scheduled time, to their mark, by the database
// clock.
type Latency struct {
	// Samples is the number of measured events; at 0 the rest means nothing.
	Samples int64
	// P50 and P99 are percentiles over the samples.
	P50, P99 time.Duration
}

// Summary is a snapshot's totals.
type Summary struct {
	Pending, Failed, Blocked, Dead, Scheduled int64
	// BlockedStreams counts the streams with blocked rows.
	BlockedStreams int64
	// OldestPending is the age of the oldest pending row over all partitions.
	OldestPending time.Duration
	// PublishedLastHour is the sum of the snapshot's minutes.
	PublishedLastHour int64
	// PublishedPerSecond is the mean over the last ten seconds, or, where unknown, over the last full minute and the one still
	// filling.
	PublishedPerSecond float64
	// ActiveWorkers, DrainingWorkers and StaleWorkers count workers.
	ActiveWorkers, DrainingWorkers, StaleWorkers int
	// OwnedPartitions and UnownedPartitions add up to all partitions; PausedPartitions may be either.
	OwnedPartitions, UnownedPartitions, PausedPartitions int
}

// Summary adds the snapshot up.
func (s Snapshot) Summary() Summary {
	var sum Summary
	for _, p := range s.Partitions {
		sum.Pending += p.Pending
		sum.Failed += p.Failed
		sum.Blocked += p.Blocked
		sum.Dead += p.Dead
		sum.Scheduled += p.Scheduled
		sum.BlockedStreams += p.BlockedStreams
		sum.OldestPending = max(sum.OldestPending, p.OldestPending)
		if p.Owned() {
			sum.OwnedPartitions++
		} else {
			sum.UnownedPartitions++
		}
		if p.PausedAt != nil {
			sum.PausedPartitions++
		}
	}
	for _, w := range s.Workers {
		switch w.State {
		case WorkerActive:
			sum.ActiveWorkers++
		case WorkerDraining:
			sum.DrainingWorkers++
		case WorkerStale:
			sum.StaleWorkers++
		}
	}
	for _, m := range s.Minutes {
		sum.PublishedLastHour += m.Published
	}
	if s.PerSecond != nil {
		sum.PublishedPerSecond = *s.PerSecond
	} else {
		sum.PublishedPerSecond = recentRate(s.At, s.Minutes)
	}
	return sum
}

// CountsAge returns the age of the counts at the snapshot's time.
func (s Snapshot) CountsAge() time.Duration {
	if s.CountedAt.IsZero() {
		return 0
	}
	return max(0, s.At.Sub(s.CountedAt))
}

// recentRate avoids the saw-tooth that the filling minute alone would draw.
func recentRate(at time.Time, minutes []Minute) float64 {
	const full = time.Minute
	if len(minutes) < 2 {
		return 0
	}
	filling, before := minutes[len(minutes)-1], minutes[len(minutes)-2]
	elapsed := min(max(at.Sub(filling.At), 0), full)
	return float64(filling.Published+before.Published) / (full + elapsed).Seconds()
}
