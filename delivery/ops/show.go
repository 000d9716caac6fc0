package ops

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

const (
	// neighbours bounds the messages named behind one.
	neighbours = 5
	// besideRows bounds the partition's rows read on either side of a message whose stream is too long to be named.
	besideRows = 3000
)

// Find returns the sequence of an event; an unknown one is ErrNotFound.
func (o *Operator) Find(ctx context.Context, id uuid.UUID) (int64, error) {
	var sequence int64
	err := o.outbox.Read(ctx, func(tx pgx.Tx) error {
		found, err := notFound(o.sql.Find.Row(ctx, tx, pg.Args{"id": id}).Scan(&sequence))
		if err == nil && !found {
			return &InputError{Field: FieldEventID, Problem: fmt.Sprintf("there is no event %s", id), Err: ErrNotFound}
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("find event: %w", err)
	}
	return sequence, nil
}

// Show returns everything about one message but its payload. One that neither the events relation nor the outbox knows is ErrNotFound.
func (o *Operator) Show(ctx context.Context, sequence int64) (Detail, error) {
	d, err := besides(ctx, o, sequence, func(o *Operator, broken unreadable) (Detail, error) { return o.show(ctx, sequence, broken) })
	if err != nil {
		return Detail{}, fmt.Errorf("show message: %w", err)
	}
	return d, nil
}

func (o *Operator) show(ctx context.Context, sequence int64, broken unreadable) (d Detail, err error) {
	err = o.outbox.Read(ctx, func(tx pgx.Tx) error {
		known, err := o.look(ctx, tx, sequence, &d)
		if err != nil {
			return err
		}
		d.LastError = cmp.Or(d.LastError, broken[sequence])
		if !known {
			return &InputError{Field: FieldSequence, Problem: fmt.Sprintf("there is no message %d", sequence), Err: ErrNotFound}
		}
		if d.State.Queued() {
			if err := o.surroundings(ctx, tx, &d); err != nil {
				return err
			}
		}
		d.Actions, err = o.actionsOn(ctx, tx, sequence)
		return err
	})
	return d, err
}

// Payload returns the body of a message. It takes the right to read that column, which looking otherwise does without.
func (o *Operator) Payload(ctx context.Context, sequence int64) ([]byte, error) {
	var payload []byte
	err := o.outbox.Read(ctx, func(tx pgx.Tx) error {
		found, err := notFound(o.sql.Payload.Row(ctx, tx, pg.Args{"sequence": sequence}).Scan(&payload))
		if err == nil && !found {
			return &InputError{Field: FieldSequence, Problem: fmt.Sprintf("there is no event %d", sequence), Err: ErrNotFound}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read payload: %w", err)
	}
	return payload, nil
}

// look reads the event, its row in the outbox and its history.
func (o *Operator) look(ctx context.Context, tx pgx.Tx, sequence int64, d *Detail) (known bool, err error) {
	d.Sequence = sequence
	hasEvent, err := o.lookEvent(ctx, tx, d)
	if err != nil {
		return false, err
	}
	in, err := o.queueKeys(ctx, tx)
	if err != nil {
		return false, err
	}
	queued, err := notFound(o.sql.Pointer.Row(ctx, tx, pg.Args{"in": in, "sequence": sequence}).Scan(&d.Partition, &d.Stream, &d.Topic, &d.State,
		&d.Attempts, &d.Generation, &d.AvailableAt, &d.DeadAt, &d.LastError, &d.Failures))
	if err != nil {
		return false, err
	}
	past, err := o.history(ctx, tx)
	if err != nil {
		return false, err
	}
	since := d.RecordedAt
	if !hasEvent {
		since = time.Unix(0, 0)
	}
	deliveries, err := o.delivered(ctx, tx, past.partitions, sequence, sequence, since, []int64{sequence})
	if err != nil {
		return false, err
	}
	d.Deliveries = deliveries[sequence]
	if !queued && !d.settle(d.Deliveries) {
		d.State = Unknown
		if hasEvent && d.Event.AuditOnly {
			d.State = AuditOnly
		}
	}
	return hasEvent || queued || len(d.Deliveries) > 0, nil
}

func (o *Operator) lookEvent(ctx context.Context, tx pgx.Tx, d *Detail) (bool, error) {
	var e Event
	var id *uuid.UUID
	found, err := notFound(o.sql.Event.Row(ctx, tx, pg.Args{"sequence": d.Sequence}).Scan(&d.Stream, &d.Topic, &id, &d.Type, &d.StreamVersion, &d.RecordedAt,
		&e.TenantID, &e.OccurredAt, &e.AuditOnly, &e.Metadata))
	if found {
		d.Event = &e
		d.EventID = *cmp.Or(id, &uuid.Nil)
	}
	return found, err
}

// surroundings reads the waiting messages behind this one, and its blocker.
func (o *Operator) surroundings(ctx context.Context, tx pgx.Tx, d *Detail) error {
	var named []int64
	of, err := o.namesOfStream(ctx, tx, d.Stream, []partition.ID{d.Partition})
	if err != nil {
		return err
	}
	if of != nil {
		named = append([]int64{}, of.sequences...)
	}
	rows, err := o.sql.Beside.Rows(ctx, tx, pg.Args{
		"partition": d.Partition, "stream": d.Stream, "sequence": d.Sequence, "behind": MaxBehind, "named": named, "rows": besideRows,
	})
	if err != nil {
		return err
	}
	var n Neighbour
	_, err = pgx.ForEachRow(rows, []any{&n.Sequence, &n.State}, func() error {
		switch {
		case n.Sequence > d.Sequence:
			if d.Behind++; d.Behind <= neighbours {
				d.Next = append(d.Next, n)
			}
		case d.BlockedBy == nil:
			first := n
			d.BlockedBy = &first
		}
		return nil
	})
	d.BehindMore = d.Behind >= MaxBehind || of == nil && d.State.Queued()
	d.Behind = min(d.Behind, MaxBehind)
	return err
}

// stateOf returns the state of a message in an unexpected one, in words for a complaint.
func (o *Operator) stateOf(ctx context.Context, tx pgx.Tx, sequence int64) (string, error) {
	var d Detail
	known, err := o.look(ctx, tx, sequence, &d)
	switch {
	case err != nil:
		return "", err
	case !known:
		return "does not exist", nil
	case d.State == Unknown:
		return "is not in the outbox (published long ago, or never queued)", nil
	default:
		return "is " + string(d.State), nil
	}
}
