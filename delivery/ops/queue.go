package ops

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// queueSource reads the outbox. Its indexes have the rows of each partition in
// order, and its two parts are apart, so every partition has a lane in either.
type queueSource struct {
	page   Page
	states []State
	parked directed
	lanes  []lane
}

// lane is one partition's rows in one part of the outbox.
type lane struct {
	partition partition.ID
	parked    bool
	after     int64
	done      bool
}

func (o *Operator) newQueueSource(f Filter, p Page, in []partition.ID) *queueSource {
	q := &queueSource{page: p, states: f.queueStates(), parked: o.parked}
	if len(q.states) == 0 {
		return q
	}
	if !f.wants(Pending) && !f.wants(Scheduled) && !f.wants(Blocked) {
		q.parked = o.troubled
	}
	for _, id := range in {
		q.lanes = append(q.lanes, lane{partition: id, parked: true, after: p.After})
		// Rows that can be published now are pending, and have no error.
		if f.wants(Pending) && !f.asksErrors() {
			q.lanes = append(q.lanes, lane{partition: id, after: p.After})
		}
	}
	return q
}

// ends returns the sequences of the hindmost lane and of the foremost one.
func (q *queueSource) ends() (last, first int64, done bool) {
	done = true
	for _, l := range q.lanes {
		switch {
		case l.done:
			continue
		case done:
			last, first, done = l.after, l.after, false
		case q.page.compare(l.after, last) < 0:
			last = l.after
		case q.page.compare(l.after, first) > 0:
			first = l.after
		}
	}
	return last, first, done
}

func (q *queueSource) reached() (sequence int64, done bool) {
	sequence, _, done = q.ends()
	return sequence, done
}

// lagging returns the lanes in the rear half of the way between the last and the first: where events are spread evenly they stay
// together, and a partition that holds nearly all of them is read alone.
func (q *queueSource) lagging() (ready, parked []int) {
	last, first, _ := q.ends()
	for i, l := range q.lanes {
		switch {
		case l.done || distance(l.after, last) > distance(first, last)/2:
		case l.parked:
			parked = append(parked, i)
		default:
			ready = append(ready, i)
		}
	}
	return ready, parked
}

func distance(a, b int64) int64 { return max(a, b) - min(a, b) }

// step reads on in the lanes that lag.
func (q *queueSource) step(ctx context.Context, s *search, rows int) ([]hit, error) {
	ready, parked := q.lagging()
	each := max(1, rows/(len(ready)+len(parked)))
	var hits []hit
	batch := &pgx.Batch{}
	q.read(batch, s, s.o.ready, ready, each, &hits)
	q.read(batch, s, q.parked, parked, each, &hits)
	err := s.tx.SendBatch(ctx, batch).Close()
	return hits, err
}

// read looks at the next rows of lanes of one part of the outbox.
func (q *queueSource) read(batch *pgx.Batch, s *search, statement directed, chosen []int, each int, hits *[]hit) {
	if len(chosen) == 0 {
		return
	}
	partitions, after := make([]partition.ID, len(chosen)), make([]int64, len(chosen))
	for i, at := range chosen {
		partitions[i], after[i] = q.lanes[at].partition, q.lanes[at].after
	}
	statement.of(s.p.Descending).Queue(batch, s.f.asked(pg.Args{
		"partitions": partitions, "after": after, "each": each, "states": q.states,
	})).Query(func(rows pgx.Rows) error {
		for _, at := range chosen {
			q.lanes[at].done = true // unless its last row was the last that was allowed
		}
		var nth, sequence int64
		var matches, last bool
		_, err := pgx.ForEachRow(rows, []any{&nth, &sequence, &matches, &last}, func() error {
			l := &q.lanes[chosen[nth-1]]
			if last {
				l.after, l.done = sequence, false
			}
			if matches {
				*hits = append(*hits, hit{sequence: sequence, row: &rowKey{l.partition, sequence}})
			}
			return nil
		})
		return err
	})
}

// queuePartitions returns the partitions whose rows in the outbox are read.
func (s *search) queuePartitions(ctx context.Context) ([]partition.ID, error) {
	known, err := s.o.queueKeys(ctx, s.tx)
	if err != nil {
		return nil, err
	}
	slices.Sort(known)
	return known, nil
}
