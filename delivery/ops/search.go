package ops

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// search (ADR 18) reads one page from several sources, each in the order of sequences: it reads on in the source that lags, until the
// page is full as far as all sources were read, or its time is over. Hits beyond the lagging source are left to the next page.
type search struct {
	o       *Operator
	tx      pgx.Tx
	f       Filter
	p       Page
	until   time.Time
	sources []source
	hits    []hit
}

type source interface {
	// reached returns the sequence up to which everything was read; done says that nothing is behind it.
	reached() (sequence int64, done bool)
	// step looks at the next rows, about so many; at least one.
	step(ctx context.Context, s *search, rows int) ([]hit, error)
}

// hit is a message that the filter chooses: one of the outbox, which is read when it is known to be shown, or a settled one.
type hit struct {
	sequence int64
	row      *rowKey
	settled  *Message
}

func (s *search) open(ctx context.Context) error {
	queue, err := s.queuePartitions(ctx)
	if err != nil {
		return err
	}
	only, err := s.named(ctx, queue)
	if err != nil || only != nil && len(only.sequences) == 0 {
		return err
	}
	var past history
	if len(s.f.settledStates()) > 0 {
		if past, err = s.o.history(ctx, s.tx); err != nil {
			return err
		}
	}
	if only != nil {
		s.add(newNamedSource(s.p, only, queue, past), namedRows(len(queue)))
		return nil
	}
	in := queue
	if len(s.f.Partitions) > 0 {
		in = s.f.Partitions
	}
	if q := s.o.newQueueSource(s.f, s.p, in); len(q.lanes) > 0 {
		rows := 2*s.p.Limit + 8*len(q.lanes)
		if s.f.asksEvents() {
			rows = 2 * len(q.lanes) // each is looked up by itself, and may lie on disk
		}
		s.add(q, rows)
	}
	switch {
	case len(past.partitions) == 0:
	case s.f.wants(Published):
		s.add(newEventSource(s.p, queue, past), 2*s.p.Limit)
	default:
		s.add(&skippedSource{after: s.p.After, queue: queue, past: past}, namedRows(len(queue)))
	}
	return nil
}

func (s *search) page(ctx context.Context) (Listing, error) {
	over := false
	for first := true; ; first = false {
		frontier, done := s.frontier()
		if done || !first && (over || s.full(frontier)) {
			return s.listing(ctx, frontier, done)
		}
		for _, one := range s.sources {
			if sequence, end := one.reached(); end || !first && sequence != frontier {
				continue
			}
			hits, err := one.step(ctx, s, 0)
			if err != nil {
				return Listing{}, err
			}
			s.hits = append(s.hits, hits...)
		}
		over = !time.Now().Before(s.until)
	}
}

// add adds a source that begins with so many rows.
func (s *search) add(one source, rows int) {
	s.sources = append(s.sources, &paced{source: one, rows: rows})
}

// stepTime is the aim for one step of a source: short beside Page.Within, which is checked between two of them.
const stepTime = 8 * time.Millisecond

// leastRows and mostRows bound a step, whatever it takes.
const (
	leastRows = 8
	mostRows  = 20_000
)

// paced reads as many rows in a step as take stepTime, judged by the step before.
type paced struct {
	source
	rows int
}

func (p *paced) step(ctx context.Context, s *search, _ int) ([]hit, error) {
	began := time.Now()
	hits, err := p.source.step(ctx, s, min(max(p.rows, leastRows), mostRows))
	factor := float64(stepTime) / float64(max(time.Since(began), time.Millisecond))
	p.rows = int(float64(p.rows) * min(max(factor, 0.25), 3))
	p.rows = min(max(p.rows, leastRows), mostRows)
	return hits, err
}

// frontier returns the sequence up to which all sources were read; done says that all are at their ends.
func (s *search) frontier() (sequence int64, done bool) {
	done = true
	for _, one := range s.sources {
		at, end := one.reached()
		if !end && (done || s.p.compare(at, sequence) < 0) {
			sequence, done = at, false
		}
	}
	return sequence, done
}

// full reports whether the page has all its messages.
func (s *search) full(frontier int64) bool {
	n := 0
	for _, h := range s.hits {
		if s.p.compare(h.sequence, frontier) <= 0 {
			n++
		}
	}
	return n >= s.p.Limit
}

// listing makes a page of the hits.
func (s *search) listing(ctx context.Context, frontier int64, done bool) (Listing, error) {
	slices.SortFunc(s.hits, func(a, b hit) int { return s.p.compare(a.sequence, b.sequence) })
	if !done {
		s.hits = slices.DeleteFunc(s.hits, func(h hit) bool { return s.p.compare(h.sequence, frontier) > 0 })
	}
	var l Listing
	if len(s.hits) > s.p.Limit || len(s.hits) == s.p.Limit && !done {
		s.hits = s.hits[:s.p.Limit]
		l.Next = s.hits[s.p.Limit-1].sequence
	} else if !done {
		l.Next, l.LookedUpTo = frontier, frontier
	}
	var keys []rowKey
	for _, h := range s.hits {
		if h.row != nil {
			keys = append(keys, *h.row)
		}
	}
	rows, err := s.o.readRows(ctx, s.tx, keys)
	if err != nil {
		return Listing{}, err
	}
	for _, h := range s.hits {
		if h.settled != nil {
			l.Messages = append(l.Messages, *h.settled)
		} else {
			l.Messages = append(l.Messages, rows[h.sequence])
		}
	}
	return l, nil
}
