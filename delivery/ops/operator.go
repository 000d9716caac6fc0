package ops

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

//go:embed sql/*.sql
var embedded embed.FS

// Operator looks at messages and mends them. It may be used by several goroutines if its DB may.
type Operator struct {
	outbox *maintenance.Outbox
	again  func(context.Context) (*Operator, error)
	fill   func(events string, q *queries) error
	events string // the relation, quoted

	sql queries

	ready, parked, troubled, window, skipped directed
}

type queries struct {
	QueueKeys, HistoryKeys                                             pg.Query
	ReadyUp, ReadyDown, ParkedUp, ParkedDown, TroubledUp, TroubledDown pg.Query
	WindowUp, WindowDown, SkippedUp, SkippedDown                       pg.Query

	Rows, Among, Named, Patience, Stream, QueuedBetween, Deliveries, Past pg.Query

	Near, Try, Find, EventsLike, Event, Payload, Pointer, Beside, States, MayReadAudit, Actions pg.Query

	Now, Selected, SelectedParked, Causes, Requeue, Settle, Waiting, Hold, Unhold, Move pg.Query

	Partitions, Pause, Heads, Batches, Worker, WorkersLike, Drain, Undrain, AuditPage, Flows, Rights pg.Query
}

// directed is a statement that pages upwards or downwards.
type directed struct{ up, down pg.Query }

func (d directed) of(descending bool) pg.Query {
	if descending {
		return d.down
	}
	return d.up
}

// New returns an operator on the tables of that schema and looks at the events
// relation's columns: a missing relation or column is pgstore.ErrEventsRelation.
func New(ctx context.Context, db pg.Conn, schema string, events pgstore.Relation) (*Operator, error) {
	// The planner takes states for rare and would sort everything, and takes a table for empty that a vacuum once found so.
	outbox, err := maintenance.New(db, schema, "enable_sort", "off")
	if err != nil {
		return nil, fmt.Errorf("ops: %w", err)
	}
	o := &Operator{outbox: outbox, again: func(ctx context.Context) (*Operator, error) { return New(ctx, db, schema, events) }}
	var of pgstore.Columns
	if err := o.outbox.Read(ctx, func(tx pgx.Tx) error {
		of, err = events.Columns(ctx, tx, schema,
			"sequence", "event_id", "stream_id", "stream_version", "event_type", "payload", "metadata", "tenant_id", "recorded_at")
		return err
	}); err != nil {
		return nil, err
	}
	o.events, o.fill = of.Relation, func(events string, q *queries) error {
		return pg.Fill(embedded, "sql/*.sql", "ops", schema, q, "{events}", events, "{payload}", of.Payload(),
			"{topic}", of.OrNull("topic", "text"), "{audit_only}", of.AuditOnly(), "{occurred_at}", of.OrNull("occurred_at", "timestamp with time zone"))
	}
	return o.of(o.events)
}

// of returns the operator with these events.
func (o *Operator) of(events string) (*Operator, error) {
	other := *o
	o = &other
	if err := o.fill(events, &o.sql); err != nil {
		return nil, fmt.Errorf("ops: %w", err)
	}
	o.ready, o.parked = directed{o.sql.ReadyUp, o.sql.ReadyDown}, directed{o.sql.ParkedUp, o.sql.ParkedDown}
	o.troubled = directed{o.sql.TroubledUp, o.sql.TroubledDown}
	o.window, o.skipped = directed{o.sql.WindowUp, o.sql.WindowDown}, directed{o.sql.SkippedUp, o.sql.SkippedDown}
	return o, nil
}

// Renew looks at the events relation's columns again. It returns o where they are the same, or the database is away.
func (o *Operator) Renew(ctx context.Context) (*Operator, error) {
	renewed, err := o.again(ctx)
	if err != nil || reflect.DeepEqual(renewed.sql, o.sql) {
		return o, err
	}
	return renewed, nil
}

// Now returns the time by the database's clock.
func (o *Operator) Now(ctx context.Context) (now time.Time, err error) {
	err = o.outbox.Read(ctx, func(tx pgx.Tx) error { return o.sql.Now.Row(ctx, tx, nil).Scan(&now, nil) })
	return now, err
}

// write makes a change; one that waits for a lock in vain changes nothing.
func (o *Operator) write(ctx context.Context, fn func(pgx.Tx) error) error {
	err := o.outbox.Write(ctx, fn)
	if maintenance.Busy(err) {
		return fmt.Errorf("%w for %s; nothing of this step was changed: %w", ErrBusy, maintenance.LockPatience, err)
	}
	return err
}

// queueKeys returns the partitions whose rows the outbox may hold.
func (o *Operator) queueKeys(ctx context.Context, tx pgx.Tx) ([]partition.ID, error) {
	return pg.Collect(ctx, tx, o.sql.QueueKeys, nil, pgx.RowTo[partition.ID])
}

// notFound turns pgx's answer for no row into false.
func notFound(err error) (found bool, _ error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}
