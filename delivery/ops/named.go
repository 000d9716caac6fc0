package ops

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

const (
	// mostOfStream bounds the events of a stream that are looked up one by one. A larger stream is found like anything else, by reading
	// all messages in their order: many of them are its own.
	mostOfStream  = 2000
	queryCanceled = "57014" // by statement_timeout
	// streamPatience bounds the time in which the events relation names a stream's events: a view may have no index for it.
	streamPatience = 50 * time.Millisecond
	// probes bounds the places that one step looks at: each named sequence may lie in every partition.
	probes = 2048
)

// namedRows is the number of named sequences in a first step.
func namedRows(partitions int) int { return probes / max(1, partitions) }

// names are the sequences that a filter names.
type names struct {
	sequences []int64
	// parked are the places in the parked part where one of them may be.
	parked []key
}

// named returns the sequences that the filter names by itself, by the event's id or by the stream; nil when it names none.
func (s *search) named(ctx context.Context, in []partition.ID) (*names, error) {
	only, err := s.o.sequencesOf(ctx, s.tx, s.f)
	if err != nil || only == nil && s.f.Stream == "" {
		return nil, err
	}
	if only == nil {
		return s.o.namesOfStream(ctx, s.tx, s.f.Stream, in)
	}
	n := &names{sequences: only}
	for _, sequence := range only {
		for _, id := range in {
			n.parked = append(n.parked, key{id, sequence})
		}
	}
	return n, nil
}

// namesOfStream returns the sequences of a stream; nil when it has more than mostOfStream, or the events relation has no quick answer.
func (o *Operator) namesOfStream(ctx context.Context, tx pgx.Tx, stream string, in []partition.ID) (*names, error) {
	inner, err := tx.Begin(ctx) // the statement's own deadline ends with it
	if err != nil {
		return nil, err
	}
	n, err := o.readStream(ctx, inner, stream, in)
	if undo := inner.Rollback(ctx); undo != nil {
		return nil, undo
	}
	if pg.Refused(err, queryCanceled) || err == nil && (len(n.sequences) > mostOfStream || len(n.parked) > mostOfStream) {
		return nil, nil // then it is looked for like anything else
	}
	return n, err
}

func (o *Operator) readStream(ctx context.Context, tx pgx.Tx, stream string, in []partition.ID) (*names, error) {
	if _, err := o.sql.Patience.Exec(ctx, tx, pg.Args{"patience": streamPatience.String()}); err != nil {
		return nil, err
	}
	rows, err := o.sql.Stream.Rows(ctx, tx, pg.Args{"stream": stream, "partitions": in, "limit": mostOfStream + 1})
	if err != nil {
		return nil, err
	}
	n := &names{}
	var sequence int64
	var parked *partition.ID
	_, err = pgx.ForEachRow(rows, []any{&sequence, &parked}, func() error {
		n.sequences = append(n.sequences, sequence)
		if parked != nil {
			n.parked = append(n.parked, key{*parked, sequence})
		}
		return nil
	})
	return n, err
}

// namedSource looks up messages whose sequences are known.
type namedSource struct {
	pending []int64 // in the page's order
	parked  map[int64][]partition.ID
	after   int64
	queue   []partition.ID
	past    history
}

func newNamedSource(p Page, n *names, queue []partition.ID, past history) *namedSource {
	slices.SortFunc(n.sequences, p.compare)
	pending := slices.DeleteFunc(slices.Compact(n.sequences), func(sequence int64) bool { return p.compare(sequence, p.After) <= 0 })
	parked := map[int64][]partition.ID{}
	for _, k := range n.parked {
		parked[k.Sequence] = append(parked[k.Sequence], k.Partition)
	}
	return &namedSource{pending: pending, parked: parked, after: p.After, queue: queue, past: past}
}

func (n *namedSource) reached() (sequence int64, done bool) { return n.after, len(n.pending) == 0 }

func (n *namedSource) step(ctx context.Context, s *search, rows int) ([]hit, error) {
	sequences := n.pending[:min(rows, len(n.pending))]
	n.pending = n.pending[len(sequences):]
	n.after = sequences[len(sequences)-1]
	var parked []key
	for _, sequence := range sequences {
		for _, id := range n.parked[sequence] {
			parked = append(parked, key{id, sequence})
		}
	}
	hits, queued, err := s.among(ctx, sequences, n.queue, parked)
	if err != nil || len(n.past.partitions) == 0 {
		return hits, err
	}
	gone := slices.DeleteFunc(slices.Clone(sequences), func(sequence int64) bool { return queued[sequence] })
	candidates, err := s.eventsOf(ctx, gone)
	if err != nil {
		return nil, err
	}
	for some := range slices.Chunk(candidates, few) {
		deliveries, err := s.deliveries(ctx, some, n.past)
		if err != nil {
			return nil, err
		}
		hits = append(hits, s.settledOf(some, deliveries, queued)...)
	}
	return hits, nil
}

// among returns the sequences that are in the outbox and chosen by the filter, and all that are there. It looks in all the partitions, of
// the parked part only in the places given.
func (s *search) among(ctx context.Context, sequences []int64, in []partition.ID, parked []key) ([]hit, map[int64]bool, error) {
	f := s.f
	partitions, places := make([]partition.ID, len(parked)), make([]int64, len(parked))
	for i, k := range parked {
		partitions[i], places[i] = k.Partition, k.Sequence
	}
	rows, err := s.o.sql.Among.Rows(ctx, s.tx, f.asked(pg.Args{
		"in": in, "sequences": sequences, "states": f.queueStates(), "partitions": partitions, "places": places,
	}))
	if err != nil {
		return nil, nil, err
	}
	var hits []hit
	queued := map[int64]bool{}
	var k rowKey
	var matches bool
	_, err = pgx.ForEachRow(rows, []any{&k.partition, &k.sequence, &matches}, func() error {
		queued[k.sequence] = true
		if matches && (len(f.Partitions) == 0 || slices.Contains(f.Partitions, k.partition)) {
			one := k
			hits = append(hits, hit{sequence: k.sequence, row: &one})
		}
		return nil
	})
	return hits, queued, err
}
