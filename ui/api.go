package ui

import (
	"net/http"
	"time"

	"github.com/postrider/postrider/ui/source"
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
	Environment string `json:"environment,omitempty"`
	Version     string `json:"version"`
	SummaryBody
}

type workersBody struct {
	freshness
	Workers []WorkerBody `json:"workers"`
}

type partitionsBody struct {
	freshness
	Partitions []PartitionBody `json:"partitions"`
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

// answer sends a body made from a snapshot that speaks for the present, and 503 when there is none.
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
			message = seen.Trouble()
		}
		w.Header().Set("Retry-After", "1")
		h.failWith(w, r, http.StatusServiceUnavailable, "snapshot_unavailable", message+h.readiness.Because(r.Context()))
		return seen, false
	}
	return seen, true
}

func newFreshness(seen Observation) freshness {
	return freshness{At: seen.At.UTC(), AgeSeconds: source.Seconds(seen.Age), CountsAgeSeconds: source.Seconds(seen.CountsAge())}
}

func (h *Handler) newSummaryBody(seen Observation) summaryBody {
	return summaryBody{
		freshness: newFreshness(seen), Environment: h.options.Environment, Version: h.options.Version, SummaryBody: seen.SummaryBody(),
	}
}

func newWorkersBody(seen Observation) workersBody {
	return workersBody{freshness: newFreshness(seen), Workers: seen.WorkerBodies()}
}

func newPartitionsBody(seen Observation) partitionsBody {
	return partitionsBody{freshness: newFreshness(seen), Partitions: seen.PartitionBodies()}
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
