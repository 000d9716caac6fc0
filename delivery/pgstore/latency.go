package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider/internal/pg"
)

// Latency is the time that events took lately from being recorded, or from the time for
// which they were scheduled, to being known as published, by the database clock.
type Latency struct {
	// Samples is the number of events measured; with 0 the rest says nothing.
	Samples int64
	// P50 and P99 are percentiles over the samples.
	P50, P99 time.Duration
}

const latencyBatches = 300

// Latency measures the first and the last event of the batches of the last five
// minutes, of the newest 300 at most. It needs the column recorded_at of the
// events relation and the right to read it.
func (s *Store) Latency(ctx context.Context) (Latency, error) {
	var l Latency
	var p50, p99 float64
	if err := s.sql.Latency.Row(ctx, s.db, pg.Args{"batches": latencyBatches}).Scan(&l.Samples, &p50, &p99); err != nil {
		return Latency{}, fmt.Errorf("latency: %w", err)
	}
	l.P50, l.P99 = seconds(p50), seconds(p99)
	return l, nil
}

// seconds is at most a century: a relation of one's own may say that events were recorded long ago.
func seconds(s float64) time.Duration {
	const most = 100 * 365 * 24 * time.Hour
	return time.Duration(min(s, most.Seconds()) * float64(time.Second))
}

// recentBatches bounds the batches that are looked at for what was published lately.
const recentBatches = 2000

// Recent counts the events that all workers together published lately, by the database clock.
type Recent struct {
	// At is the time of the reading.
	At time.Time
	// Since is from when on every event is counted.
	Since time.Time
	// PerSecond is the rate of published events over the last ten seconds.
	PerSecond float64
	// Seconds ascend; those in which nothing was published are not among them.
	Seconds []Second
}

// Second counts the events that were published in the second that begins then.
type Second struct {
	At        time.Time
	Published int64
}

// Recent looks at the newest 2,000 batches that were published within that time; Since is the begin of the oldest. A batch is
// committed moments after it was counted, so that the last second or two may still grow.
func (s *Store) Recent(ctx context.Context, within time.Duration) (Recent, error) {
	var r Recent
	var at []time.Time
	var published []int64
	row := s.sql.Recent.Row(ctx, s.db, pg.Args{"batches": recentBatches, "within": within})
	if err := row.Scan(&r.At, &r.Since, &r.PerSecond, &at, &published); err != nil {
		return Recent{}, fmt.Errorf("published lately: %w", err)
	}
	for i := range at {
		r.Seconds = append(r.Seconds, Second{At: at[i], Published: published[i]})
	}
	return r, nil
}
