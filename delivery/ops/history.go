package ops

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

type history struct {
	partitions []partition.ID
	// lowest is below every sequence of the history; 0 without any.
	lowest int64
}

func (o *Operator) history(ctx context.Context, tx pgx.Tx) (history, error) {
	rows, err := o.sql.HistoryKeys.Rows(ctx, tx, nil)
	if err != nil {
		return history{}, err
	}
	var h history
	var id partition.ID
	var first int64
	_, err = pgx.ForEachRow(rows, []any{&id, &first}, func() error {
		h.partitions = append(h.partitions, id)
		if len(h.partitions) == 1 || first <= h.lowest {
			h.lowest = first - 1
		}
		return nil
	})
	return h, err
}

// clockSlack bounds the lag of an event's time of recording behind that of its delivery, where another clock gave it.
const clockSlack = time.Hour

// delivered returns the deliveries of sequences between low and high, recorded since then, by sequence and the oldest first; with only,
// of these alone.
func (o *Operator) delivered(
	ctx context.Context, tx pgx.Tx, in []partition.ID, low, high int64, since time.Time, only []int64,
) (map[int64][]Delivery, error) {
	rows, err := o.sql.Deliveries.Rows(ctx, tx, pg.Args{"in": in, "low": low, "high": high, "since": since.Add(-clockSlack), "only": only})
	if err != nil {
		return nil, err
	}
	return collectDeliveries(rows)
}

// deliveredOnes returns the deliveries of messages that may lie far apart.
func (o *Operator) deliveredOnes(ctx context.Context, tx pgx.Tx, in []partition.ID, messages []Message) (map[int64][]Delivery, error) {
	sequences, since := make([]int64, len(messages)), make([]time.Time, len(messages))
	for i, m := range messages {
		sequences[i], since[i] = m.Sequence, m.RecordedAt.Add(-clockSlack)
	}
	rows, err := o.sql.Past.Rows(ctx, tx, pg.Args{"in": in, "sequences": sequences, "since": since})
	if err != nil {
		return nil, err
	}
	return collectDeliveries(rows)
}

func collectDeliveries(rows pgx.Rows) (map[int64][]Delivery, error) {
	found := map[int64][]Delivery{}
	var (
		sequence             int64
		d                    Delivery
		stream, lost         *int64
		discarded            bool
		attempts, generation int
	)
	_, err := pgx.ForEachRow(rows, []any{
		&sequence, &d.Partition, &d.Epoch, &d.PublishedAt, &stream, &attempts, &generation, &discarded, &lost,
	}, func() error {
		d.StreamSequence, d.Attempts, d.Generation = stream, attempts, generation
		switch {
		case discarded:
			d.State = Discarded
		case stream == nil:
			d.State = Skipped
		default:
			d.State = Published
		}
		d.Lost = lost != nil && stream != nil && *stream > *lost
		found[sequence] = append(found[sequence], d)
		return nil
	})
	return found, err
}

// settle gives the message the state of its last delivery, and reports whether there is one that counts.
func (m *Message) settle(deliveries []Delivery) bool {
	if len(deliveries) == 0 {
		return false
	}
	d := deliveries[len(deliveries)-1]
	if d.Lost {
		return false
	}
	at := d.PublishedAt
	m.State, m.Partition, m.Attempts, m.Generation = d.State, d.Partition, d.Attempts, d.Generation
	m.PublishedAt, m.StreamSequence = &at, d.StreamSequence
	return true
}
