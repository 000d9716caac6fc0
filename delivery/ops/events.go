package ops

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// eventSource reads the events in their order and looks up the settled ones among those that the filter chooses.
type eventSource struct {
	page  Page
	after int64
	done  bool
	queue []partition.ID
	past  history
}

func newEventSource(p Page, queue []partition.ID, past history) *eventSource {
	e := &eventSource{page: p, after: p.After, queue: queue, past: past}
	if !p.Descending {
		e.after = max(e.after, past.lowest) // lower ones were forgotten
	}
	e.done = e.forgotten(e.after)
	return e
}

// forgotten reports whether the history has nothing behind that sequence.
func (e *eventSource) forgotten(sequence int64) bool {
	return e.page.Descending && sequence <= e.past.lowest+1
}

func (e *eventSource) reached() (sequence int64, done bool) { return e.after, e.done }

func (e *eventSource) step(ctx context.Context, s *search, rows int) ([]hit, error) {
	candidates, last, err := s.window(ctx, e.after, rows)
	if err != nil {
		return nil, err
	}
	e.after, e.done = last, last == 0 || e.forgotten(last)
	return s.settled(ctx, candidates, e.queue, e.past)
}

// window looks at the next events. It returns those that the filter chooses, and the last one looked at; 0: there are no more.
func (s *search) window(ctx context.Context, after int64, most int) (chosen []Message, last int64, err error) {
	rows, err := s.o.window.of(s.p.Descending).Rows(ctx, s.tx, s.f.askedOfEvents(pg.Args{"after": after, "most": most}))
	if err != nil {
		return nil, 0, err
	}
	var m Message
	var matches, end bool
	_, err = pgx.ForEachRow(rows, []any{
		&m.Sequence, &m.Stream, &m.Topic, &m.EventID, &m.Type, &m.StreamVersion, &m.RecordedAt, &matches, &end,
	}, func() error {
		if matches {
			chosen = append(chosen, m)
		}
		if end {
			last = m.Sequence
		}
		return nil
	})
	return chosen, last, err
}

// few bounds the sequences looked up one by one, and not by their range.
const few = 8

// settled keeps the candidates that were settled as the filter wants it and are not in the outbox again.
func (s *search) settled(ctx context.Context, candidates []Message, queue []partition.ID, past history) ([]hit, error) {
	if len(candidates) == 0 {
		return nil, nil
	}
	deliveries, err := s.deliveries(ctx, candidates, past)
	if err != nil {
		return nil, err
	}
	candidates = slices.DeleteFunc(candidates, func(m Message) bool { return len(deliveries[m.Sequence]) == 0 })
	queued, err := s.queued(ctx, candidates, queue)
	if err != nil {
		return nil, err
	}
	return s.settledOf(candidates, deliveries, queued), nil
}

func (s *search) settledOf(candidates []Message, deliveries map[int64][]Delivery, queued map[int64]bool) []hit {
	var hits []hit
	for _, m := range candidates {
		if m.settle(deliveries[m.Sequence]) && !queued[m.Sequence] && s.f.wants(m.State) {
			hits = append(hits, hit{sequence: m.Sequence, settled: &m})
		}
	}
	return hits
}

// deliveries returns the history of the candidates.
func (s *search) deliveries(ctx context.Context, candidates []Message, past history) (map[int64][]Delivery, error) {
	in := past.partitions
	if len(s.f.Partitions) > 0 {
		in = s.f.Partitions
	}
	if len(candidates) <= few {
		return s.o.deliveredOnes(ctx, s.tx, in, candidates)
	}
	low, high, since := candidates[0].Sequence, candidates[0].Sequence, candidates[0].RecordedAt
	for _, m := range candidates {
		low, high = min(low, m.Sequence), max(high, m.Sequence)
		if m.RecordedAt.Before(since) {
			since = m.RecordedAt
		}
	}
	return s.o.delivered(ctx, s.tx, in, low, high, since, nil)
}

// queued returns the candidates that are in the outbox.
func (s *search) queued(ctx context.Context, candidates []Message, in []partition.ID) (map[int64]bool, error) {
	if len(candidates) == 0 {
		return nil, nil
	}
	sequences := make([]int64, len(candidates))
	for i, m := range candidates {
		sequences[i] = m.Sequence
	}
	if len(candidates) <= few {
		var parked []key
		for _, sequence := range sequences {
			for _, id := range in {
				parked = append(parked, key{id, sequence})
			}
		}
		_, queued, err := s.among(ctx, sequences, in, parked)
		return queued, err
	}
	rows, err := s.o.sql.QueuedBetween.Rows(ctx, s.tx, pg.Args{"in": in, "low": slices.Min(sequences), "high": slices.Max(sequences)})
	if err != nil {
		return nil, err
	}
	queued := map[int64]bool{}
	var sequence int64
	_, err = pgx.ForEachRow(rows, []any{&sequence}, func() error { queued[sequence] = true; return nil })
	return queued, err
}

// skippedSource reads the few messages that were settled without being published.
type skippedSource struct {
	after int64
	done  bool
	queue []partition.ID
	past  history
}

func (k *skippedSource) reached() (sequence int64, done bool) { return k.after, k.done }

func (k *skippedSource) step(ctx context.Context, s *search, rows int) ([]hit, error) {
	args := pg.Args{"after": k.after, "limit": rows, "partitions": s.f.Partitions}
	sequences, err := pg.Collect(ctx, s.tx, s.o.skipped.of(s.p.Descending), args, pgx.RowTo[int64])
	if err != nil {
		return nil, err
	}
	if k.done = len(sequences) < rows; len(sequences) == 0 {
		return nil, nil
	}
	k.after = sequences[len(sequences)-1]
	candidates, err := s.eventsOf(ctx, sequences)
	if err != nil {
		return nil, err
	}
	return s.settledOnes(ctx, candidates, k.queue, k.past)
}

// settledOnes is settled for candidates far apart.
func (s *search) settledOnes(ctx context.Context, candidates []Message, queue []partition.ID, past history) ([]hit, error) {
	var hits []hit
	for some := range slices.Chunk(candidates, few) {
		found, err := s.settled(ctx, some, queue, past)
		if err != nil {
			return nil, err
		}
		hits = append(hits, found...)
	}
	return hits, nil
}

// eventsOf returns the named events that the filter chooses.
func (s *search) eventsOf(ctx context.Context, sequences []int64) ([]Message, error) {
	return pg.Collect(ctx, s.tx, s.o.sql.Named, s.f.askedOfEvents(pg.Args{"sequences": sequences}), func(row pgx.CollectableRow) (Message, error) {
		var m Message
		err := row.Scan(&m.Sequence, &m.Stream, &m.Topic, &m.EventID, &m.Type, &m.StreamVersion, &m.RecordedAt)
		return m, err
	})
}
