package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/partition"
)

// Selection says which messages a command changes: by sequence, by what they
// are, or all. Exactly one of the three must be given.
type Selection struct {
	// State is Dead, or Failed where messages are requeued. Defaults to Dead.
	State State
	// Sequences names messages, each of which must be in that state.
	Sequences []int64
	// Filter chooses among the messages of that state; its States stay empty.
	Filter Filter
	// All takes every message of that state.
	All bool
}

func (s Selection) withDefaults() Selection {
	if s.State == "" {
		s.State = Dead
	}
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
		return &InputError{Field: FieldSelection, Problem: "nothing is selected: give sequences, a filter, or all"}
	case given > 1:
		return &InputError{Field: FieldSelection, Problem: "sequences, filters and all exclude each other"}
	case s.Filter.Sequence != 0:
		return &InputError{Field: FieldSequence, Problem: "a selection names sequences outside of its filter"}
	case len(s.Filter.States) > 0:
		return &InputError{Field: FieldState, Problem: "a selection has one state, and none in its filter"}
	case len(s.Sequences) > 0 && s.Sequences[0] < 1:
		return &InputError{Field: FieldSequence, Problem: fmt.Sprintf("must be at least 1, got %d", s.Sequences[0])}
	}
	return nil
}

// key is a row's place in the order in which selections are worked off.
type key struct {
	Partition partition.ID
	Sequence  int64
}

// start is before every row.
var start = key{Partition: -1}

// cursor is a selection on its way.
type cursor struct {
	Selection
	began time.Time // by the database's clock
	after key
}

// begin notes the time and makes sure that named messages are what they must be.
func (o *Operator) begin(ctx context.Context, s Selection) (*cursor, error) {
	c := &cursor{Selection: s, after: start}
	err := o.read(ctx, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&c.began); err != nil {
			return err
		}
		if s.Filter.EventID != uuid.Nil {
			only, err := o.sequencesOf(ctx, tx, s.Filter)
			if err != nil {
				return err
			}
			if len(only) == 0 {
				return &InputError{Field: FieldEventID, Problem: fmt.Sprintf("there is no event %s", s.Filter.EventID), Err: ErrNotFound}
			}
			c.Sequences = only
			return nil // it may be in another state: then nothing matches
		}
		if err := o.checkPartitions(ctx, tx, s.Filter.Partitions); err != nil {
			return err
		}
		return o.checkSequences(ctx, tx, s)
	})
	return c, err
}

// checkPartitions refuses partitions that there are not, which would match
// nothing without a word.
func (o *Operator) checkPartitions(ctx context.Context, tx pgx.Tx, wanted []partition.ID) error {
	if len(wanted) == 0 {
		return nil
	}
	known, err := keys(ctx, tx, o.queueKeys)
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

// shown is how many wrong sequences a complaint names.
const shown = 5

// checkSequences refuses sequences that are not in the selection's state.
func (o *Operator) checkSequences(ctx context.Context, tx pgx.Tx, s Selection) error {
	if len(s.Sequences) == 0 {
		return nil
	}
	in, err := keys(ctx, tx, o.queueKeys)
	if err != nil {
		return err
	}
	rows, err := tx.Query(ctx, o.states, in, s.Sequences)
	if err != nil {
		return err
	}
	fit := map[int64]bool{}
	var sequence int64
	var state State
	if _, err := pgx.ForEachRow(rows, []any{&sequence, &state}, func() error {
		fit[sequence] = state == s.State
		return nil
	}); err != nil {
		return err
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
			return err
		}
		if text != "does not exist" {
			kind = ErrWrongState
		}
		complaints = append(complaints, fmt.Sprintf("%d %s", sequence, text))
	}
	if len(refused) == 0 {
		return nil
	}
	text := strings.Join(complaints, ", ")
	if more := len(refused) - len(complaints); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return &InputError{
		Field: FieldSequence, Err: kind, Sequences: refused,
		Problem: fmt.Sprintf("%s, not %s; nothing was changed", text, s.State),
	}
}

// next returns the next rows of the selection.
func (o *Operator) next(ctx context.Context, tx pgx.Tx, c *cursor, limit int) ([]key, error) {
	var only []int64
	if len(c.Sequences) > 0 {
		only = c.Sequences
	}
	f := c.Filter
	rows, err := tx.Query(ctx, o.selected, c.after.Partition, c.after.Sequence, c.State, c.began, limit, only, f.Partitions,
		orNull(f.Stream), orNull(f.Topic), orNull(f.ErrorContains), orNull(f.Type), timeOrNull(f.Since), timeOrNull(f.Until))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[key])
}

// countStep is how many rows a count reads at once.
const countStep = 10_000

// count counts a selection without changing anything.
func (o *Operator) count(ctx context.Context, c *cursor) (int64, error) {
	var n int64
	err := o.read(ctx, func(tx pgx.Tx) error {
		for {
			rows, err := o.next(ctx, tx, c, countStep)
			if err != nil {
				return err
			}
			n += int64(len(rows))
			if len(rows) < countStep {
				return nil
			}
			c.after = rows[len(rows)-1]
		}
	})
	return n, err
}
