package ui

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"
)

// freshness opens every answer of the API. Durations are seconds.
type freshness struct {
	// At is the snapshot's moment by the database clock.
	At time.Time `json:"at"`
	// AgeSeconds is how long ago that was.
	AgeSeconds float64 `json:"age_seconds"`
	// CountsAgeSeconds is how much older than At the backlog's counts are.
	CountsAgeSeconds float64 `json:"counts_age_seconds"`
}

type summaryBody struct {
	freshness
	Environment             string         `json:"environment,omitempty"`
	Version                 string         `json:"version"`
	Pending                 int64          `json:"pending"`
	OldestPendingAgeSeconds float64        `json:"oldest_pending_age_seconds"`
	Failed                  int64          `json:"failed"`
	Blocked                 int64          `json:"blocked"`
	Dead                    int64          `json:"dead"`
	Scheduled               int64          `json:"scheduled"`
	PublishedLastHour       int64          `json:"published_last_hour"`
	PublishedPerSecond      float64        `json:"published_per_second"`
	Workers                 workerTotals   `json:"workers"`
	Partitions              partitionTotal `json:"partitions"`
	Watermark               Watermark      `json:"watermark"`
}

type workerTotals struct {
	Active   int `json:"active"`
	Draining int `json:"draining"`
	Stale    int `json:"stale"`
}

type partitionTotal struct {
	Total   int `json:"total"`
	Owned   int `json:"owned"`
	Unowned int `json:"unowned"`
	Paused  int `json:"paused"`
}

type workersBody struct {
	freshness
	Workers []workerBody `json:"workers"`
}

type workerBody struct {
	ID                   uuid.UUID   `json:"id"`
	Hostname             string      `json:"hostname"`
	PID                  int         `json:"pid"`
	Version              string      `json:"version"`
	State                WorkerState `json:"state"`
	StartedAt            time.Time   `json:"started_at"`
	HeartbeatUntil       time.Time   `json:"heartbeat_until"`
	HeartbeatLeftSeconds float64     `json:"heartbeat_left_seconds"`
	HeartbeatAgeSeconds  *float64    `json:"heartbeat_age_seconds"`
	Owned                int         `json:"owned"`
	Desired              int         `json:"desired"`
	// DrainRequestedAt is null unless an operator asked the worker to drain.
	DrainRequestedAt *time.Time `json:"drain_requested_at"`
}

type partitionsBody struct {
	freshness
	Partitions []partitionBody `json:"partitions"`
}

type partitionBody struct {
	Partition int `json:"partition"`
	// Owner is null where no live lease exists.
	Owner                   *uuid.UUID `json:"owner"`
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
	// Why says for people what keeps events waiting; empty when nothing does.
	Why []string `json:"why"`
}

type throughputBody struct {
	freshness
	Minutes []minuteBody `json:"minutes"`
}

type minuteBody struct {
	At        time.Time `json:"at"`
	Published int64     `json:"published"`
	Failed    int64     `json:"failed"`
	Retried   int64     `json:"retried"`
	Skipped   int64     `json:"skipped"`
}

func (h *Handler) summary(w http.ResponseWriter, r *http.Request) {
	h.answer(w, r, func(seen Observation) any { return h.newSummaryBody(seen) })
}

func (h *Handler) workers(w http.ResponseWriter, r *http.Request) {
	h.answer(w, r, func(seen Observation) any { return newWorkersBody(seen) })
}

func (h *Handler) partitions(w http.ResponseWriter, r *http.Request) {
	h.answer(w, r, func(seen Observation) any { return newPartitionsBody(seen) })
}

func (h *Handler) throughput(w http.ResponseWriter, r *http.Request) {
	h.answer(w, r, func(seen Observation) any { return newThroughputBody(seen) })
}

// answer sends a body made from a snapshot that speaks for the present, and 503
// when there is none.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, body func(Observation) any) {
	if seen, ok := h.present(w, r); ok {
		writeJSON(w, http.StatusOK, body(seen))
	}
}

// present returns a snapshot that speaks for the present, or answers 503.
func (h *Handler) present(w http.ResponseWriter, r *http.Request) (Observation, bool) {
	seen, err := h.cache.Observe(r.Context())
	if err != nil || seen.Stale {
		message := "The database has not answered yet."
		if err == nil {
			message = trouble(seen)
		}
		w.Header().Set("Retry-After", "1")
		h.failWith(w, r, http.StatusServiceUnavailable, "snapshot_unavailable", message)
		return seen, false
	}
	return seen, true
}

// trouble says in general words why a snapshot is old; empty while it is not.
// The cause itself may name hosts and users and stays in the log.
func trouble(seen Observation) string {
	switch {
	case errors.Is(seen.Err, context.DeadlineExceeded):
		return "The database did not answer in time."
	case seen.Err != nil:
		return "The database did not answer. The log of this process tells why."
	case seen.Stale:
		return "No newer snapshot was read."
	default:
		return ""
	}
}

func newFreshness(seen Observation) freshness {
	return freshness{At: seen.At.UTC(), AgeSeconds: seconds(seen.Age), CountsAgeSeconds: seconds(seen.CountsAge())}
}

func (h *Handler) newSummaryBody(seen Observation) summaryBody {
	sum := seen.Summary()
	return summaryBody{
		freshness:               newFreshness(seen),
		Environment:             h.options.Environment,
		Version:                 h.options.Version,
		Pending:                 sum.Pending,
		OldestPendingAgeSeconds: seconds(sum.OldestPending),
		Failed:                  sum.Failed,
		Blocked:                 sum.Blocked,
		Dead:                    sum.Dead,
		Scheduled:               sum.Scheduled,
		PublishedLastHour:       sum.PublishedLastHour,
		PublishedPerSecond:      sum.PublishedPerSecond,
		Workers:                 workerTotals{Active: sum.ActiveWorkers, Draining: sum.DrainingWorkers, Stale: sum.StaleWorkers},
		Partitions: partitionTotal{
			Total: len(seen.Partitions), Owned: sum.OwnedPartitions,
			Unowned: sum.UnownedPartitions, Paused: sum.PausedPartitions,
		},
		Watermark: seen.Watermark,
	}
}

func newWorkersBody(seen Observation) workersBody {
	body := workersBody{freshness: newFreshness(seen), Workers: []workerBody{}}
	for _, w := range seen.Workers {
		worker := workerBody{
			ID: w.ID, Hostname: w.Hostname, PID: w.PID, Version: w.Version, State: w.State,
			StartedAt: w.StartedAt.UTC(), HeartbeatUntil: w.HeartbeatUntil.UTC(),
			HeartbeatLeftSeconds: seconds(w.HeartbeatLeft), Owned: w.Owned, Desired: w.Desired,
			DrainRequestedAt: utc(w.DrainRequestedAt),
		}
		if w.HeartbeatAge != nil {
			age := seconds(*w.HeartbeatAge)
			worker.HeartbeatAgeSeconds = &age
		}
		body.Workers = append(body.Workers, worker)
	}
	return body
}

func newPartitionsBody(seen Observation) partitionsBody {
	body := partitionsBody{freshness: newFreshness(seen), Partitions: []partitionBody{}}
	for _, p := range seen.Partitions {
		body.Partitions = append(body.Partitions, newPartitionBody(seen.Snapshot, p))
	}
	return body
}

func newPartitionBody(s Snapshot, p Partition) partitionBody {
	body := partitionBody{
		Partition: p.Number, LeaseEpoch: p.Epoch, Delivered: p.Delivered, PausedAt: utc(p.PausedAt),
		Pending: p.Pending, OldestPendingAgeSeconds: seconds(p.OldestPending),
		Failed: p.Failed, Blocked: p.Blocked, Dead: p.Dead, Scheduled: p.Scheduled,
		Why: append([]string{}, s.Why(p)...),
	}
	if p.Owned() {
		owner := p.Owner
		body.Owner = &owner
		body.LeaseUntil = utc(&p.LeaseUntil)
		body.LeaseLeftSeconds = seconds(p.LeaseLeft)
	}
	return body
}

func newThroughputBody(seen Observation) throughputBody {
	body := throughputBody{freshness: newFreshness(seen), Minutes: []minuteBody{}}
	for _, m := range seen.Minutes {
		body.Minutes = append(body.Minutes, minuteBody{
			At: m.At.UTC(), Published: m.Published, Failed: m.Failed, Retried: m.Retried, Skipped: m.Skipped,
		})
	}
	return body
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

// seconds keeps milliseconds; more digits would only suggest precision.
func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }
