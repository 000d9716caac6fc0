package ops

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/partition"
)

// MostCauses bounds the causes listed.
const MostCauses = 100

// causesKept bounds the causes distinguished, so that texts that all differ do not fill the memory.
const causesKept = 10_000

// Cause groups dead messages of one topic and type by a common error.
type Cause struct {
	// Topic and Type may be empty: the topic where the producer gave none, the type where the event is missing.
	Topic, Type string
	// Family is the last error, its first 200 characters, with # for text in double quotes and for words with a digit. A Filter with
	// Topic, Type and ErrorFamily chooses the messages of this cause. Empty: no error was kept.
	Family string
	// Class is that of the last attempts: temporary where all attempts were used up, permanent, mixed, or empty where it was not kept.
	Class string
	Count int64
	// First and Last are the first and the last time of death.
	First, Last time.Time
	// Example is the lowest sequence among them, Error its last error, 300 characters of it at most.
	Example int64
	Error   string
}

// Causes lists the causes of death, the most frequent first.
type Causes struct {
	List []Cause
	// Others counts dead messages of causes beyond the first MostCauses.
	Others int64
	// More says that the time was over before all were read: the counts are lower bounds.
	More bool
}

type causeKey struct{ topic, kind, family string }

// Causes groups the dead messages that a filter chooses by cause. It looks for within, 1 minute at most, however many there are; 0: 30
// ms. The filter's States, Sequence and EventID stay empty.
func (o *Operator) Causes(ctx context.Context, f Filter, within time.Duration) (Causes, error) {
	within = cmp.Or(within, defaultWithin)
	switch err := f.validate(); {
	case err != nil:
		return Causes{}, err
	case len(f.States) > 0:
		return Causes{}, maintenance.Refuse(FieldState, "causes are those of dead messages; give no state")
	case f.Sequence != 0 || f.EventID != uuid.Nil:
		return Causes{}, maintenance.Refuse(FieldSequence, "a single message is not grouped; show it")
	case within < 0 || within > mostWithin:
		return Causes{}, maintenance.Refuse(FieldWithin, "must lie between 0 and %s, got %s", mostWithin, within)
	}
	c, err := o.begin(ctx, Selection{State: Dead, Filter: f.withDefaults()})
	if err != nil {
		return Causes{}, fmt.Errorf("causes: %w", err)
	}
	found, others := map[causeKey]Cause{}, int64(0)
	c.step = countStep
	for began := time.Now(); !c.done() && time.Since(began) < within; {
		stepped := time.Now()
		if err := o.without(ctx, func(o *Operator) error {
			return o.outbox.Read(ctx, func(tx pgx.Tx) error { return o.causesOf(ctx, tx, c, found, &others) })
		}); err != nil {
			return Causes{}, fmt.Errorf("causes: %w", err)
		}
		c.pace(time.Since(stepped))
	}
	all := Causes{Others: others, More: !c.done()}
	for _, one := range found {
		all.List = append(all.List, one)
	}
	slices.SortFunc(all.List, func(a, b Cause) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Example, b.Example)) })
	for _, one := range all.List[min(len(all.List), MostCauses):] {
		all.Others += one.Count
	}
	all.List = all.List[:min(len(all.List), MostCauses)]
	return all, nil
}

// causesOf looks at the next rows and adds their causes.
func (o *Operator) causesOf(ctx context.Context, tx pgx.Tx, c *cursor, found map[causeKey]Cause, others *int64) error {
	rows, err := o.sql.Causes.Rows(ctx, tx, c.looks())
	if err != nil {
		return err
	}
	var one Cause
	var first, last *time.Time
	var lowest, highest string
	var id *partition.ID
	var end *key
	if _, err := pgx.ForEachRow(rows, []any{
		&one.Topic, &one.Type, &one.Family, &one.Count, &lowest, &highest, &first, &last, &one.Example, &one.Error, &id,
	}, func() error {
		if id != nil {
			end = &key{*id, one.Example}
			return nil
		}
		if one.Class = lowest; lowest != highest {
			one.Class = "mixed"
		}
		one.First, one.Last = *first, *last
		k := causeKey{one.Topic, one.Type, one.Family}
		known, is := found[k]
		switch {
		case is:
			found[k] = known.with(one)
		case len(found) < causesKept:
			found[k] = one
		default:
			*others += one.Count
		}
		return nil
	}); err != nil {
		return err
	}
	c.goOn(end)
	return nil
}

// with adds dead messages found later of the same cause.
func (c Cause) with(more Cause) Cause {
	c.Count += more.Count
	if c.Class != more.Class {
		c.Class = "mixed"
	}
	if more.First.Before(c.First) {
		c.First = more.First
	}
	if more.Last.After(c.Last) {
		c.Last = more.Last
	}
	if more.Example < c.Example {
		c.Example, c.Error = more.Example, more.Error
	}
	return c
}
