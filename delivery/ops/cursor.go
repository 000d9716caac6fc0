package ops

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// key is a row's place in the order of a selection.
type key struct {
	Partition partition.ID
	Sequence  int64
}

func (k key) compare(other key) int {
	return cmp.Or(cmp.Compare(k.Partition, other.Partition), cmp.Compare(k.Sequence, other.Sequence))
}

// run is a range of partitions that are next to each other.
type run struct{ first, last partition.ID }

// runsOf joins partitions, which ascend, to runs; none are all.
func runsOf(partitions []partition.ID) []run {
	if len(partitions) == 0 {
		return []run{{0, partition.ID(partition.MaxCount - 1)}}
	}
	var runs []run
	for _, id := range partitions {
		if n := len(runs); n > 0 && runs[n-1].last+1 == id {
			runs[n-1].last = id
			continue
		}
		runs = append(runs, run{id, id})
	}
	return runs
}

// cursor is a selection under way.
type cursor struct {
	Selection
	began   time.Time // by the database's clock
	resized string    // when the partitions were resized last
	place
	named []key // the rest of the named messages
	all   bool  // none is named: the rows of the runs are looked at
	step  int   // how many rows the next statement looks at
}

// place is the progress of a selection.
type place struct {
	after key
	runs  []run // that are not at their end
	taken int   // of those that were named
}

func (c *cursor) done() bool {
	if c.all {
		return len(c.runs) == 0
	}
	return c.taken == len(c.named)
}

// lookStep bounds the rows of one statement, so that none takes long, however many rows there are and however few of them are chosen. A
// count that has little time begins with countStep.
const (
	lookStep  = 5000
	countStep = 200
)

// next returns the next rows of the selection, at most limit, and the place to go on from. It may find none before the selection is done.
func (o *Operator) next(ctx context.Context, tx pgx.Tx, c *cursor, limit int) ([]key, place, error) {
	to := c.place
	if !c.all {
		to.taken = min(c.taken+limit, len(c.named))
		return c.named[c.taken:to.taken], to, nil
	}
	selected := o.sql.Selected
	if c.State == Scheduled {
		selected = o.sql.SelectedParked
	}
	args := c.looks()
	args["state"] = c.State
	rows, err := selected.Rows(ctx, tx, args)
	if err != nil {
		return nil, to, err
	}
	var list []key
	var k key
	var chosen, last bool
	var end *key
	if _, err := pgx.ForEachRow(rows, []any{&k.Partition, &k.Sequence, &chosen, &last}, func() error {
		if chosen {
			list = append(list, k)
		}
		if last {
			end = new(k)
		}
		return nil
	}); err != nil {
		return nil, to, err
	}
	if len(list) > limit {
		list = list[:limit]
		to.after = list[limit-1]
	} else {
		to.goOn(end)
	}
	return list, to, nil
}

// looks returns the arguments of the statement that reads the next rows.
func (c *cursor) looks() pg.Args {
	return c.Filter.asked(pg.Args{
		"partition": c.after.Partition, "after": c.after.Sequence, "last": c.runs[0].last, "began": c.began, "step": c.step,
	})
}

// goOn moves behind the last row that was looked at; nil: the run has no more.
func (p *place) goOn(last *key) {
	if last != nil {
		p.after = *last
		return
	}
	if p.runs = p.runs[1:]; len(p.runs) > 0 {
		p.after = key{Partition: p.runs[0].first, Sequence: -1}
	}
}

// pace makes the next statement read more rows after a quick one, and fewer after a slow one.
func (c *cursor) pace(took time.Duration) {
	switch {
	case took < stepTime:
		c.step = min(2*c.step, lookStep)
	case took > 2*stepTime:
		c.step = max(c.step/2, countStep)
	}
}

// tally is a selection's count so far.
type tally struct {
	n    int64
	more bool // there may be more: it was not counted to its end
}

// count counts a selection without changing anything, up to most and for so long; 0: to its end.
func (o *Operator) count(ctx context.Context, c cursor, most int64, within time.Duration, told func(int64)) (tally, error) {
	var t tally
	if within > 0 {
		c.step = countStep
	}
	for began := time.Now(); !c.done(); {
		if most > 0 && t.n >= most || within > 0 && time.Since(began) >= within {
			t.more = true
			break
		}
		stepped := time.Now()
		if err := o.without(ctx, func(o *Operator) error {
			return o.outbox.Read(ctx, func(tx pgx.Tx) error {
				list, to, err := o.next(ctx, tx, &c, lookStep)
				if err == nil {
					c.place = to
					t.n += int64(len(list))
				}
				return err
			})
		}); err != nil {
			return t, err
		}
		if within > 0 {
			c.pace(time.Since(stepped))
		}
		if told != nil {
			told(t.n)
		}
	}
	if most > 0 && t.n > most {
		t = tally{n: most, more: true}
	}
	return t, nil
}
