package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// Selection chooses messages for a command: by sequence, by a filter, or all. Exactly one of the three must be given.
type Selection struct {
	// State is Dead, or Failed where messages are requeued, or Scheduled where they are cancelled or moved. Defaults to Dead.
	State State
	// Sequences names messages, each of which must be in that state.
	Sequences []int64
	// Filter chooses among the messages of that state; its States stay empty.
	Filter Filter
	// All takes every message of that state.
	All bool
}

func (s Selection) withDefaults() Selection {
	s.State = cmp.Or(s.State, Dead)
	s.Filter = s.Filter.withDefaults()
	s.Sequences = slices.Compact(slices.Sorted(slices.Values(s.Sequences)))
	return s
}

func (s Selection) validate() error {
	if err := s.Filter.validate(); err != nil {
		return err
	}
	given := 0
	for _, one := range []bool{len(s.Sequences) > 0, !s.Filter.Empty(), s.All} {
		if one {
			given++
		}
	}
	switch {
	case given == 0:
		return maintenance.Refuse(FieldSelection, "nothing is selected: give sequences, a filter, or all")
	case given > 1:
		return maintenance.Refuse(FieldSelection, "sequences, filters and all exclude each other")
	case s.Filter.Sequence != 0:
		return maintenance.Refuse(FieldSequence, "a selection names sequences outside of its filter")
	case len(s.Filter.States) > 0:
		return maintenance.Refuse(FieldState, "a selection has one state, and none in its filter")
	case len(s.Sequences) > 0 && s.Sequences[0] < 1:
		return maintenance.Refuse(FieldSequence, "must be at least 1, got %d", s.Sequences[0])
	}
	return nil
}

// begin notes the time and refuses named messages that are not in the selection's state.
func (o *Operator) begin(ctx context.Context, s Selection) (*cursor, error) {
	c := &cursor{Selection: s, step: lookStep}
	c.runs = runsOf(s.Filter.Partitions)
	c.after = key{Partition: c.runs[0].first, Sequence: -1}
	err := o.outbox.Read(ctx, func(tx pgx.Tx) (err error) {
		if err := o.sql.Now.Row(ctx, tx, nil).Scan(&c.began, &c.resized); err != nil {
			return err
		}
		switch {
		case s.Filter.EventID != uuid.Nil:
			c.named, err = o.keyOfEvent(ctx, tx, s)
		case len(s.Sequences) > 0:
			c.named, err = o.checkSequences(ctx, tx, s)
		default:
			c.all = true
			err = o.checkPartitions(ctx, tx, s.Filter.Partitions)
		}
		slices.SortFunc(c.named, key.compare)
		return err
	})
	return c, err
}

// keyOfEvent returns the row of the event that a selection names, if the selection wants it: it may be in another state, and then nothing
// matches.
func (o *Operator) keyOfEvent(ctx context.Context, tx pgx.Tx, s Selection) ([]key, error) {
	only, err := o.sequencesOf(ctx, tx, s.Filter)
	if err != nil {
		return nil, err
	}
	if len(only) == 0 {
		return nil, &InputError{Field: FieldEventID, Problem: fmt.Sprintf("there is no event %s", s.Filter.EventID), Err: ErrNotFound}
	}
	look := &search{o: o, tx: tx, f: s.Filter}
	look.f.States = []State{s.State}
	in, err := look.queuePartitions(ctx)
	if err != nil {
		return nil, err
	}
	var parked []key
	for _, id := range in {
		parked = append(parked, key{id, only[0]})
	}
	hits, _, err := look.among(ctx, only, in, parked)
	var list []key
	for _, h := range hits {
		list = append(list, key{h.row.partition, h.row.sequence})
	}
	return list, err
}

// checkPartitions refuses unknown partitions, which would match nothing without a word.
func (o *Operator) checkPartitions(ctx context.Context, tx pgx.Tx, wanted []partition.ID) error {
	if len(wanted) == 0 {
		return nil
	}
	known, err := o.queueKeys(ctx, tx)
	if err != nil {
		return err
	}
	for _, id := range wanted {
		if !slices.Contains(known, id) {
			return &InputError{Field: FieldPartition, Problem: fmt.Sprintf("there is no partition %d; nothing was changed", id), Err: ErrNotFound}
		}
	}
	return nil
}

// shown bounds the wrong sequences that a complaint names.
const shown = 5

// checkSequences refuses sequences that are not in the selection's state. The others are returned.
func (o *Operator) checkSequences(ctx context.Context, tx pgx.Tx, s Selection) ([]key, error) {
	in, err := o.queueKeys(ctx, tx)
	if err != nil {
		return nil, err
	}
	rows, err := o.sql.States.Rows(ctx, tx, pg.Args{"in": in, "sequences": s.Sequences})
	if err != nil {
		return nil, err
	}
	var list []key
	fit := map[int64]bool{}
	var k key
	var state State
	if _, err := pgx.ForEachRow(rows, []any{&k.Sequence, &state, &k.Partition}, func() error {
		if fit[k.Sequence] = state == s.State; state == s.State {
			list = append(list, k)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	var complaints []string
	var refused []int64
	kind := ErrNotFound
	for _, sequence := range s.Sequences {
		if fit[sequence] {
			continue
		}
		if refused = append(refused, sequence); len(refused) > shown {
			continue
		}
		text, err := o.stateOf(ctx, tx, sequence)
		if err != nil {
			return nil, err
		}
		if text != "does not exist" {
			kind = ErrWrongState
		}
		complaints = append(complaints, fmt.Sprintf("%d %s", sequence, text))
	}
	if len(refused) == 0 {
		return list, nil
	}
	not := ""
	if errors.Is(kind, ErrWrongState) { // of what is there
		not = fmt.Sprintf(", not %s", s.State)
	}
	text := strings.Join(complaints, ", ")
	if more := len(refused) - len(complaints); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return nil, &InputError{
		Field: FieldSequence, Err: kind, Sequences: refused,
		Problem: text + not + "; nothing was changed",
	}
}
