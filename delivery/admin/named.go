package admin

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/partition"
)

const (
	// mostOfStream is up to how many events a stream's are looked up one by one. A
	// stream that has more is found like anything else, by looking at all messages
	// in their order: many of them are its own.
	mostOfStream = 2000
	// streamPatience is how long the events relation may take to name a stream's
	// events: one that is a view may have no index for it.
	streamPatience = 50 * time.Millisecond
	// probes is how many places one step looks at: each named sequence may lie in
	// every partition.
	probes = 2048
)

// namedRows is how many named sequences a first step looks up.
func namedRows(partitions int) int { return probes / max(1, partitions) }

// named returns the sequences that the filter names by themselves, by the event's
// id or by the stream; nil when there is no such list.
func (s *search) named(ctx context.Context) ([]int64, error) {
	only, err := s.o.sequencesOf(ctx, s.tx, s.f)
	if err != nil || only != nil || s.f.Stream == "" {
		return only, err
	}
	queue, err := s.queuePartitions(ctx)
	if err != nil {
		return nil, err
	}
	// The statement's own deadline ends with the savepoint.
	inner, err := s.tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	sequences, err := s.o.streamSequences(ctx, inner, s.f.Stream, queue)
	if undo := inner.Rollback(ctx); undo != nil {
		return nil, undo
	}
	if isTimeout(err) || len(sequences) > mostOfStream {
		return nil, nil //nolint:nilerr // then it is looked for like anything else
	}
	if sequences == nil {
		sequences = []int64{}
	}
	return sequences, err
}

// streamSequences returns the sequences of a stream; more than mostOfStream, and
// then not all, when it has more.
func (o *Operator) streamSequences(ctx context.Context, tx pgx.Tx, stream string, in []partition.ID) ([]int64, error) {
	if _, err := tx.Exec(ctx, `SELECT set_config('statement_timeout', $1, true)`, streamPatience.String()); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, o.stream, stream, in, mostOfStream+1)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// namedSource looks up messages whose sequences are known.
type namedSource struct {
	pending []int64 // in the page's order
	after   int64
	queue   []partition.ID
	past    history
}

func (n *namedSource) reached() (sequence int64, done bool) { return n.after, len(n.pending) == 0 }

func (n *namedSource) step(ctx context.Context, s *search, rows int) ([]hit, error) {
	sequences := n.pending[:min(rows, len(n.pending))]
	n.pending = n.pending[len(sequences):]
	n.after = sequences[len(sequences)-1]
	hits, queued, err := s.among(ctx, sequences, n.queue)
	if err != nil || len(n.past.partitions) == 0 {
		return hits, err
	}
	gone := slices.DeleteFunc(slices.Clone(sequences), func(sequence int64) bool { return queued[sequence] })
	candidates, err := s.eventsOf(ctx, gone)
	if err != nil {
		return nil, err
	}
	settled, err := s.settledOnes(ctx, candidates, n.queue, n.past)
	return append(hits, settled...), err
}

// among returns those of the sequences that are in the outbox and chosen by the
// filter, and all that are there.
func (s *search) among(ctx context.Context, sequences []int64, in []partition.ID) ([]hit, map[int64]bool, error) {
	f := s.f
	rows, err := s.tx.Query(ctx, s.o.among, in, sequences, f.queueStates(), orNull(f.Stream), orNull(f.Topic), orNull(f.ErrorContains),
		orNull(f.Type), timeOrNull(f.Since), timeOrNull(f.Until))
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

// isTimeout tells whether a statement took longer than statement_timeout.
func isTimeout(err error) bool {
	const queryCanceled = "57014"
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == queryCanceled
}
