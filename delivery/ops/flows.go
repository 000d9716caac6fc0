package ops

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// flowBatches bounds the batches read for an estimate.
const flowBatches = 200

// Flow is the rate of published events of one topic and type.
type Flow struct {
	// Topic and Type may be empty: where the producer gave none, or the event is missing.
	Topic, Type string
	PerSecond   float64
}

// Flows are the rates of the last minute, by topic and type: estimated from up to five events of each of the newest 200 batches. Where no
// batch holds more than five they are exact.
type Flows struct {
	// List is in no order.
	List []Flow
	// Sampled counts the events read, Span is the time that the batches cover: a minute, or less where more than 200 were published in
	// it.
	Sampled int64
	Span    time.Duration
}

// Flows estimates the rates. It reads about a thousand events.
func (o *Operator) Flows(ctx context.Context) (Flows, error) {
	f, err := besides(ctx, o, math.MaxInt64, func(o *Operator, _ unreadable) (Flows, error) { return o.flows(ctx) })
	if err != nil {
		return Flows{}, fmt.Errorf("published lately: %w", err)
	}
	return f, nil
}

func (o *Operator) flows(ctx context.Context) (f Flows, err error) {
	err = o.outbox.Read(ctx, func(tx pgx.Tx) error {
		rows, err := o.sql.Flows.Rows(ctx, tx, pg.Args{"batches": flowBatches})
		if err != nil {
			return err
		}
		var one Flow
		var sampled int64
		_, err = pgx.ForEachRow(rows, []any{&one.Topic, &one.Type, &one.PerSecond, &sampled, &f.Span}, func() error {
			f.List = append(f.List, one)
			f.Sampled += sampled
			return nil
		})
		return err
	})
	return f, err
}
