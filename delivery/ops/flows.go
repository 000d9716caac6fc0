package ops

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// flowBatches is how many batches are looked at for what is published.
const flowBatches = 200

// Flow is how many events of one topic and type were published a second.
type Flow struct {
	// Topic and Type may be empty: where the producer gave none, or the event is missing.
	Topic, Type string
	PerSecond   float64
}

// Flows is what was published in the last minute, by topic and type: estimated from up to five events of each of the newest 200 batches.
// Where no batch holds more than five it is exact.
type Flows struct {
	// List is in no order.
	List []Flow
	// Sampled counts the events that were looked at, Span is the time that the batches are of: a minute, or less where more than 200
	// were published in it.
	Sampled int64
	Span    time.Duration
}

// Flows estimates what is published. It reads about a thousand events.
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
