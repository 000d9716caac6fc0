package delivery

import (
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider/internal/pg"
)

// Latency is how long events took lately from being recorded, or from the time for
// which they were scheduled, to being known as published, by the database clock.
type Latency struct {
	// Samples is the number of events measured; with 0 the rest says nothing.
	Samples int64
	// P50 and P99 are percentiles over the samples.
	P50, P99 time.Duration
}

// latencyBatches bounds the batches that are looked at.
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

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// rateBatches bounds the batches that are looked at for the rate.
const rateBatches = 2000

// Rate is how many events a second were published in the last ten seconds, by all workers.
func (s *Store) Rate(ctx context.Context) (perSecond float64, err error) {
	if err := s.sql.Rate.Row(ctx, s.db, pg.Args{"batches": rateBatches}).Scan(&perSecond); err != nil {
		return 0, fmt.Errorf("rate: %w", err)
	}
	return perSecond, nil
}
