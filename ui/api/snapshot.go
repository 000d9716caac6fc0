package api

import (
	"net/http"
	"time"

	"github.com/postrider/postrider/ui/source"
)

// freshness opens every answer of the API. Durations are seconds.
type freshness struct {
	// At is the snapshot's time by the database clock.
	At time.Time `json:"at"`
	// AgeSeconds is the time since At.
	AgeSeconds float64 `json:"age_seconds"`
	// CountsAgeSeconds is the age of the backlog's counts at At.
	CountsAgeSeconds float64 `json:"counts_age_seconds"`
}

type summaryBody struct {
	freshness
	Environment string `json:"environment,omitempty"`
	Version     string `json:"version"`
	source.SummaryBody
}

type workersBody struct {
	freshness
	Workers []source.WorkerBody `json:"workers"`
}

type partitionsBody struct {
	freshness
	Partitions []source.PartitionBody `json:"partitions"`
}

type throughputBody struct {
	freshness
	Minutes []minuteBody `json:"minutes"`
	// Seconds are whole ones; fewer than 300 until the monitor has read for so long.
	Seconds []secondBody `json:"seconds"`
}

type secondBody struct {
	At        time.Time `json:"at"`
	Published int64     `json:"published"`
}

type minuteBody struct {
	At        time.Time `json:"at"`
	Published int64     `json:"published"`
	Failed    int64     `json:"failed"`
	Retried   int64     `json:"retried"`
	Skipped   int64     `json:"skipped"`
}

// ofSnapshot answers with a body made from a snapshot that is not stale.
func ofSnapshot[T any](a *API, body func(source.Observation) T) http.HandlerFunc {
	return a.json(func(_ http.ResponseWriter, r *http.Request) (any, error) {
		seen, err := a.present(r)
		return body(seen), err
	})
}

// present returns a snapshot that is not stale, or 503.
func (a *API) present(r *http.Request) (source.Observation, error) {
	seen, err := a.desk.Cache.Observe(r.Context())
	if err != nil || seen.Stale {
		message := "The database has not answered yet."
		if err == nil {
			message = seen.Trouble()
		}
		return seen, decided(http.StatusServiceUnavailable, "snapshot_unavailable", message+a.desk.Readiness.Because(r.Context()))
	}
	return seen, nil
}

func newFreshness(seen source.Observation) freshness {
	return freshness{At: seen.At.UTC(), AgeSeconds: source.Seconds(seen.Age), CountsAgeSeconds: source.Seconds(seen.CountsAge())}
}

func (a *API) newSummaryBody(seen source.Observation) summaryBody {
	return summaryBody{freshness: newFreshness(seen), Environment: a.desk.Environment, Version: a.desk.Version, SummaryBody: seen.SummaryBody()}
}

func newWorkersBody(seen source.Observation) workersBody {
	return workersBody{newFreshness(seen), seen.WorkerBodies()}
}

func newPartitionsBody(seen source.Observation) partitionsBody {
	return partitionsBody{newFreshness(seen), seen.PartitionBodies()}
}

func newThroughputBody(seen source.Observation) throughputBody {
	body := throughputBody{freshness: newFreshness(seen), Minutes: []minuteBody{}, Seconds: []secondBody{}}
	for _, m := range seen.Minutes {
		m.At = m.At.UTC()
		body.Minutes = append(body.Minutes, minuteBody(m))
	}
	for _, s := range seen.Seconds {
		body.Seconds = append(body.Seconds, secondBody{At: s.At.UTC(), Published: s.Published})
	}
	return body
}
