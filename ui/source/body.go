package source

import (
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/condition"
)

// SummaryBody is the JSON form of a snapshot's totals, the same in `postrider status` and in the API.
type SummaryBody struct {
	Pending                 int64   `json:"pending"`
	OldestPendingAgeSeconds float64 `json:"oldest_pending_age_seconds"`
	Failed                  int64   `json:"failed"`
	Blocked                 int64   `json:"blocked"`
	BlockedStreams          int64   `json:"blocked_streams"`
	Dead                    int64   `json:"dead"`
	Scheduled               int64   `json:"scheduled"`
	PublishedLastHour       int64   `json:"published_last_hour"`
	PublishedPerSecond      float64 `json:"published_per_second"`
	// The latencies are null without samples.
	LatencyP50Seconds *float64       `json:"latency_p50_seconds"`
	LatencyP99Seconds *float64       `json:"latency_p99_seconds"`
	Workers           WorkerTotals   `json:"workers"`
	Partitions        PartitionTotal `json:"partitions"`
	Watermark         Watermark      `json:"watermark"`
	// Conditions keep workers from delivering, Waits events from being delivered.
	Conditions []Condition `json:"conditions"`
	Waits      []Wait      `json:"waits"`
}

// WorkerTotals counts workers by state.
type WorkerTotals struct {
	Active   int `json:"active"`
	Draining int `json:"draining"`
	Stale    int `json:"stale"`
}

// PartitionTotal counts partitions; paused ones may be owned or not.
type PartitionTotal struct {
	Total   int `json:"total"`
	Owned   int `json:"owned"`
	Unowned int `json:"unowned"`
	Paused  int `json:"paused"`
}

// WorkerBody is the JSON form of a worker, the same in `postrider workers` and in the API.
type WorkerBody struct {
	ID                   uuid.UUID   `json:"worker_id"`
	Hostname             string      `json:"hostname"`
	PID                  int         `json:"pid"`
	Version              string      `json:"version"`
	State                WorkerState `json:"state"`
	StartedAt            time.Time   `json:"started_at"`
	HeartbeatUntil       time.Time   `json:"heartbeat_until"`
	HeartbeatLeftSeconds float64     `json:"heartbeat_left_seconds"`
	// HeartbeatAgeSeconds is null where the lifetime of a heartbeat is unknown.
	HeartbeatAgeSeconds *float64 `json:"heartbeat_age_seconds"`
	Owned               int      `json:"owned"`
	Desired             int      `json:"desired"`
	// DrainRequestedAt is null unless an operator asked the worker to drain.
	DrainRequestedAt *time.Time `json:"drain_requested_at"`
	// Condition is the reason why the worker does not deliver; null: none.
	Condition *condition.Reason `json:"condition"`
	// Canary is the fault of the worker's last canary; null: none, or it sends none.
	Canary *string `json:"canary"`
}

// PartitionBody is the JSON form of a partition, the same in `postrider partitions list` and in the API.
type PartitionBody struct {
	Partition int `json:"partition_key"`
	// Owner is null where no live lease exists.
	Owner                   *uuid.UUID `json:"lease_owner"`
	LeaseEpoch              int64      `json:"lease_epoch"`
	LeaseUntil              *time.Time `json:"lease_until"`
	LeaseLeftSeconds        float64    `json:"lease_left_seconds"`
	Delivered               int64      `json:"delivered"`
	PausedAt                *time.Time `json:"paused_at"`
	Pending                 int64      `json:"pending"`
	OldestPendingAgeSeconds float64    `json:"oldest_pending_age_seconds"`
	Failed                  int64      `json:"failed"`
	Blocked                 int64      `json:"blocked"`
	Dead                    int64      `json:"dead"`
	Scheduled               int64      `json:"scheduled"`
	// Why names for people the causes of waits; empty: none.
	Why []string `json:"why"`
}

// SummaryBody returns the totals' JSON form.
func (s Snapshot) SummaryBody() SummaryBody {
	sum := s.Summary()
	body := SummaryBody{
		Pending: sum.Pending, OldestPendingAgeSeconds: Seconds(sum.OldestPending), Failed: sum.Failed, Blocked: sum.Blocked,
		BlockedStreams: sum.BlockedStreams, Dead: sum.Dead, Scheduled: sum.Scheduled,
		PublishedLastHour: sum.PublishedLastHour, PublishedPerSecond: sum.PublishedPerSecond,
		Workers: WorkerTotals{Active: sum.ActiveWorkers, Draining: sum.DrainingWorkers, Stale: sum.StaleWorkers},
		Partitions: PartitionTotal{
			Total: len(s.Partitions), Owned: sum.OwnedPartitions, Unowned: sum.UnownedPartitions, Paused: sum.PausedPartitions,
		},
		Watermark: s.Watermark, Conditions: s.Conditions(), Waits: s.Waits(),
	}
	if l := s.Latency; l != nil && l.Samples > 0 {
		body.LatencyP50Seconds, body.LatencyP99Seconds = new(Seconds(l.P50)), new(Seconds(l.P99))
	}
	return body
}

// WorkerBodies returns the workers' JSON form.
func (s Snapshot) WorkerBodies() []WorkerBody {
	bodies := make([]WorkerBody, 0, len(s.Workers))
	for _, w := range s.Workers {
		worker := WorkerBody{
			ID: w.ID, Hostname: w.Hostname, PID: w.PID, Version: w.Version, State: w.State,
			StartedAt: w.StartedAt.UTC(), HeartbeatUntil: w.HeartbeatUntil.UTC(),
			HeartbeatLeftSeconds: Seconds(w.HeartbeatLeft), Owned: w.Owned, Desired: w.Desired,
			DrainRequestedAt: UTC(w.DrainRequestedAt), Canary: OrNull(Scrub(w.Canary)),
		}
		if w.HeartbeatAge != nil {
			worker.HeartbeatAgeSeconds = new(Seconds(*w.HeartbeatAge))
		}
		if w.Condition != nil {
			worker.Condition = &w.Condition.Reason
		}
		bodies = append(bodies, worker)
	}
	return bodies
}

// PartitionBodies returns the partitions' JSON form.
func (s Snapshot) PartitionBodies() []PartitionBody {
	bodies := make([]PartitionBody, 0, len(s.Partitions))
	for _, p := range s.Partitions {
		bodies = append(bodies, s.PartitionBody(p))
	}
	return bodies
}

// PartitionBody returns one partition's JSON form.
func (s Snapshot) PartitionBody(p Partition) PartitionBody {
	body := PartitionBody{
		Partition: p.Number, LeaseEpoch: p.Epoch, Delivered: p.Delivered, PausedAt: UTC(p.PausedAt),
		Pending: p.Pending, OldestPendingAgeSeconds: Seconds(p.OldestPending),
		Failed: p.Failed, Blocked: p.Blocked, Dead: p.Dead, Scheduled: p.Scheduled,
		Why: append([]string{}, s.Why(p)...),
	}
	if p.Owned() {
		owner := p.Owner
		body.Owner = &owner
		body.LeaseUntil = UTC(&p.LeaseUntil)
		body.LeaseLeftSeconds = Seconds(p.LeaseLeft)
	}
	return body
}

// UTC returns the time as in JSON; nil stays nil.
func UTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

// Seconds keeps milliseconds; more digits would only suggest precision.
func Seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// OrNull turns a zero value into JSON's null.
func OrNull[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}
