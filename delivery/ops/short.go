package ops

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/internal/pg"
)

// Ids are long: a part that fits one thing alone names it.

const (
	// candidates bounds the matches named for a shortened id.
	candidates = 5
	// leastOfWorker and leastOfEvent are the least numbers of characters.
	leastOfWorker, leastOfEvent = 4, 8
)

// FindWorker returns the worker whose id begins with that text, or ends with it, as pages show the end. A whole id is returned as it is,
// known or not. None is ErrNotFound, several are refused by their names.
func (o *Operator) FindWorker(ctx context.Context, text string) (uuid.UUID, error) {
	if id, err := uuid.Parse(text); err == nil && id != uuid.Nil {
		return id, nil
	}
	short := strings.ToLower(text)
	if !hexadecimal(short, leastOfWorker) {
		return uuid.Nil, maintenance.Refuse(FieldWorker,
			"must be a worker's id (UUID), or %d characters or more of its beginning or end, got %q", leastOfWorker, text)
	}
	return o.only(ctx, FieldWorker, "worker", text, o.sql.WorkersLike, pg.Args{"part": short, "limit": candidates + 1})
}

// FindEvent returns the event whose id begins with that text, as FindWorker does.
func (o *Operator) FindEvent(ctx context.Context, text string) (uuid.UUID, error) {
	first, last, err := eventsNamed(text)
	if err != nil || first == last {
		return first, err
	}
	return o.only(ctx, FieldEventID, "event", text, o.sql.EventsLike, pg.Args{"first": first, "last": last, "limit": candidates + 1})
}

// CheckEventID refuses a text that is neither an event's id nor the beginning of one.
func CheckEventID(text string) error {
	_, _, err := eventsNamed(text)
	return err
}

// eventsNamed returns the least and the greatest id that begins with that text.
func eventsNamed(text string) (first, last uuid.UUID, err error) {
	if id, err := uuid.Parse(text); err == nil && id != uuid.Nil {
		return id, id, nil
	}
	const shape = "00000000-0000-0000-0000-000000000000"
	short := strings.ToLower(text)
	if hexadecimal(short, leastOfEvent) {
		first, err1 := uuid.Parse(short + shape[len(short):])
		last, err2 := uuid.Parse(short + strings.ReplaceAll(shape, "0", "f")[len(short):])
		if err1 == nil && err2 == nil {
			return first, last, nil
		}
	}
	return uuid.Nil, uuid.Nil, maintenance.Refuse(FieldEventID,
		"must be an event's id (UUID), or %d characters or more of its beginning, got %q", leastOfEvent, text)
}

// hexadecimal reports whether text can be a part of an id.
func hexadecimal(text string, least int) bool {
	return len(text) >= least && len(text) < 36 && strings.Trim(text, "0123456789abcdef-") == ""
}

func (o *Operator) only(ctx context.Context, field, noun, text string, query pg.Query, args pg.Args) (uuid.UUID, error) {
	var found []uuid.UUID
	err := o.outbox.Read(ctx, func(tx pgx.Tx) (err error) {
		found, err = pg.Collect(ctx, tx, query, args, pgx.RowTo[uuid.UUID])
		return err
	})
	switch {
	case err != nil:
		return uuid.Nil, fmt.Errorf("find %s: %w", noun, err)
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		return uuid.Nil, &InputError{Field: field, Problem: fmt.Sprintf("there is no %s %s; nothing was changed", noun, text), Err: ErrNotFound}
	}
	var names []string
	for _, id := range found[:min(len(found), candidates)] {
		names = append(names, id.String())
	}
	if len(found) > candidates {
		names = append(names, "…")
	}
	return uuid.Nil, maintenance.Refuse(field, "%s may be %s; give more of it", text, strings.Join(names, ", "))
}
