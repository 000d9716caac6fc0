package ops

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/internal/sqlfile"
	"github.com/postrider/postrider/partition"
)

//go:embed sql/*.sql
var embedded embed.FS

// DB is what an operator needs of a pgx connection or pool.
type DB interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// Operator looks at messages and mends them. It may be used by several
// goroutines if its DB may.
type Operator struct {
	outbox *maintenance.Outbox

	queueKeys, historyKeys, queuedBetween, deliveries string
	ready, parked, troubled, window, skipped          directed
	rows, among, named, past, stream                  string
	find, event, payload, pointer, beside             string
	states, selected, selectedParked                  string
	requeue, settle, waiting                          string
	hold, unhold, move                                string
	partitions, pause                                 string
	auditPage, mayReadAudit, actions                  string
	heads, batches, worker, drain, undrain, rights    string
	workersLike, eventsLike                           string
}

// directed is a statement that pages upwards or downwards.
type directed struct{ up, down string }

func (d directed) of(descending bool) string {
	if descending {
		return d.down
	}
	return d.up
}

func newDirected(text string) directed {
	return directed{
		up:   strings.NewReplacer("{after}", ">", "{order}", "ASC").Replace(text),
		down: strings.NewReplacer("{after}", "<", "{order}", "DESC").Replace(text),
	}
}

// newLane is the statement that reads one of the outbox's two parts, or of the
// parked one only what failed or died.
func newLane(text, part string) directed {
	return newDirected(strings.ReplaceAll(text, "{part}", part))
}

// queueState is the state of a row of the outbox, as in the view outbox_messages.
const queueState = `CASE WHEN o.dead_at IS NOT NULL THEN 'dead' WHEN o.blocked THEN 'blocked'
            WHEN o.attempts > 0 THEN 'failed' WHEN o.parked AND o.available_at > statement_timestamp() THEN 'scheduled' ELSE 'pending' END`

// trouble holds for failed and dead rows, in the words of the index that knows
// them.
const trouble = ` AND o.parked AND (o.dead_at IS NOT NULL OR NOT o.blocked AND o.attempts > 0)`

// New returns an operator on the tables of that schema and looks at the events
// relation's columns: a missing relation or column is delivery.ErrEventsRelation.
func New(ctx context.Context, db DB, schema string, events delivery.Relation) (*Operator, error) {
	set, err := sqlfile.Load(embedded, "sql", schema)
	if err != nil {
		return nil, fmt.Errorf("ops: %w", err)
	}
	// The planner takes states for rare and would sort everything, and takes a table for
	// empty that a vacuum once found so.
	outbox, err := maintenance.New(db, schema, "enable_sort", "off")
	if err != nil {
		return nil, fmt.Errorf("ops: %w", err)
	}
	o := &Operator{outbox: outbox}
	var lane, window, skipped string
	statements := o.statements()
	for into, name := range map[*string]string{&lane: "lane", &window: "window", &skipped: "skipped"} {
		statements[into] = name
	}
	for into, name := range statements {
		text, err := set.Need(name)
		if err != nil {
			return nil, fmt.Errorf("ops: %w", err)
		}
		*into = text[0]
	}
	var of delivery.Columns
	if err := o.outbox.Read(ctx, func(tx pgx.Tx) error {
		of, err = events.Columns(ctx, tx, schema,
			"sequence", "event_id", "stream_id", "stream_version", "event_type", "payload", "metadata", "tenant_id", "recorded_at")
		return err
	}); err != nil {
		return nil, err
	}
	columns := strings.NewReplacer("{events}", of.Relation, "{payload}", of.Payload(), "{state}", queueState,
		"{topic}", of.OrNull("topic", "text"), "{audit_only}", of.AuditOnly(), "{occurred_at}", of.OrNull("occurred_at", "timestamp with time zone"))
	for into := range statements {
		*into = columns.Replace(*into)
	}
	o.ready, o.parked, o.troubled = newLane(lane, " AND NOT o.parked"), newLane(lane, " AND o.parked"), newLane(lane, trouble)
	o.window, o.skipped = newDirected(window), newDirected(skipped)
	o.selectedParked = strings.ReplaceAll(o.selected, "{trouble}", " AND o.parked")
	o.selected, o.heads = strings.ReplaceAll(o.selected, "{trouble}", trouble), strings.ReplaceAll(o.heads, "{trouble}", trouble)
	return o, nil
}

// statements are the files of those that need no more than the columns' names.
func (o *Operator) statements() map[*string]string {
	return map[*string]string{
		&o.queueKeys: "queue_keys", &o.historyKeys: "history_keys", &o.queuedBetween: "queued_between", &o.deliveries: "deliveries",
		&o.rows: "rows", &o.among: "among", &o.named: "named", &o.past: "past", &o.stream: "stream",
		&o.find: "find", &o.event: "event", &o.payload: "payload", &o.pointer: "pointer", &o.beside: "beside",
		&o.states: "states", &o.selected: "selected",
		&o.requeue: "requeue", &o.settle: "settle", &o.waiting: "waiting",
		&o.hold: "hold", &o.unhold: "unhold", &o.move: "move",
		&o.partitions: "partitions", &o.pause: "pause", &o.worker: "worker", &o.drain: "drain", &o.undrain: "undrain",
		&o.workersLike: "workers_like", &o.eventsLike: "events_like",
		&o.auditPage: "audit_page", &o.mayReadAudit: "may_read_audit", &o.actions: "actions",
		&o.heads: "heads", &o.batches: "partition_deliveries", &o.rights: "rights",
	}
}

// write is a change; nothing of one that waits for a lock in vain is done.
func (o *Operator) write(ctx context.Context, fn func(pgx.Tx) error) error {
	err := o.outbox.Write(ctx, fn)
	if maintenance.Busy(err) {
		return fmt.Errorf("%w for %s; nothing of this step was changed: %w", ErrBusy, maintenance.LockPatience, err)
	}
	return err
}

// keys reads a list of partitions.
func keys(ctx context.Context, tx pgx.Tx, sql string) ([]partition.ID, error) {
	rows, err := tx.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[partition.ID])
}

// notFound turns pgx's answer for no row into false.
func notFound(err error) (found bool, _ error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}
