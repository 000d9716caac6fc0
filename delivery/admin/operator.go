package admin

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery"
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
	db DB

	queueKeys, historyKeys, queuedBetween, deliveries string
	ready, parked, troubled, window, skipped          directed
	rows, among, named, past, stream                  string
	find, event, payload, pointer, beside             string
	states, selected, lock                            string
	requeue, settle, promote, waiting, audit          string
	partitions, pause                                 string
	auditPage, mayReadAudit, actions                  string
	heads, batches, worker, drain, rights             string
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
            WHEN o.attempts > 0 THEN 'failed' ELSE 'pending' END`

// trouble holds for failed and dead rows, in the words of the index that knows
// them.
const trouble = ` AND o.parked AND (o.dead_at IS NOT NULL OR NOT o.blocked AND o.attempts > 0)`

// New returns an operator on the tables of that schema and looks at the events
// relation's columns: a missing relation or column is delivery.ErrEventsRelation.
func New(ctx context.Context, db DB, schema string, events delivery.Relation) (*Operator, error) {
	set, err := sqlfile.Load(embedded, "sql", schema)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	o := &Operator{db: db}
	var lane, window, skipped, about string
	statements := o.statements()
	for into, name := range map[*string]string{&lane: "lane", &window: "window", &skipped: "skipped", &about: "columns"} {
		statements[into] = name
	}
	for into, name := range statements {
		text, err := set.Need(name)
		if err != nil {
			return nil, fmt.Errorf("admin: %w", err)
		}
		*into = text[0]
	}
	if events.Schema == "" {
		events.Schema = schema
	}
	if events.Name == "" {
		events.Name = "events"
	}
	var columns *strings.Replacer
	if err := o.read(ctx, func(tx pgx.Tx) error {
		columns, err = eventsColumns(ctx, tx, about, events)
		return err
	}); err != nil {
		return nil, err
	}
	for into := range statements {
		*into = columns.Replace(*into)
	}
	o.ready, o.parked, o.troubled = newLane(lane, " AND NOT o.parked"), newLane(lane, " AND o.parked"), newLane(lane, trouble)
	o.window, o.skipped = newDirected(window), newDirected(skipped)
	o.selected, o.heads = strings.ReplaceAll(o.selected, "{trouble}", trouble), strings.ReplaceAll(o.heads, "{trouble}", trouble)
	return o, nil
}

// statements are the files of those that need no more than the columns' names.
func (o *Operator) statements() map[*string]string {
	return map[*string]string{
		&o.queueKeys: "queue_keys", &o.historyKeys: "history_keys", &o.queuedBetween: "queued_between", &o.deliveries: "deliveries",
		&o.rows: "rows", &o.among: "among", &o.named: "named", &o.past: "past", &o.stream: "stream",
		&o.find: "find", &o.event: "event", &o.payload: "payload", &o.pointer: "pointer", &o.beside: "beside",
		&o.states: "states", &o.selected: "selected", &o.lock: "lock",
		&o.requeue: "requeue", &o.settle: "settle", &o.promote: "promote", &o.waiting: "waiting", &o.audit: "audit",
		&o.partitions: "partitions", &o.pause: "pause", &o.worker: "worker", &o.drain: "drain",
		&o.auditPage: "audit_page", &o.mayReadAudit: "may_read_audit", &o.actions: "actions",
		&o.heads: "heads", &o.batches: "partition_deliveries", &o.rights: "rights",
	}
}

// eventsColumns checks the relation and returns what depends on its columns.
func eventsColumns(ctx context.Context, tx pgx.Tx, sql string, events delivery.Relation) (*strings.Replacer, error) {
	quoted := pgx.Identifier{events.Schema, events.Name}.Sanitize()
	rows, err := tx.Query(ctx, sql, quoted)
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", delivery.ErrEventsRelation, quoted, err)
	}
	types := map[string]string{}
	var name, kind string
	if _, err := pgx.ForEachRow(rows, []any{&name, &kind}, func() error {
		types[name] = kind
		return nil
	}); err != nil {
		return nil, fmt.Errorf("%w %s: %w", delivery.ErrEventsRelation, quoted, err)
	}
	if len(types) == 0 {
		return nil, fmt.Errorf("%w %s does not exist; run `postrider migrate up` or set --events-relation", delivery.ErrEventsRelation, quoted)
	}
	for _, column := range []string{
		"sequence", "event_id", "stream_id", "stream_version", "event_type", "payload", "metadata", "tenant_id", "recorded_at",
	} {
		if types[column] == "" {
			return nil, fmt.Errorf("%w %s has no column %s", delivery.ErrEventsRelation, quoted, column)
		}
	}
	optional := func(column, kind string) string {
		if types[column] == kind {
			return "e." + column
		}
		return "NULL::" + kind
	}
	payload := "e.payload"
	if types["payload"] != "bytea" {
		payload = "convert_to(e.payload::text, 'UTF8')"
	}
	return strings.NewReplacer("{events}", quoted, "{payload}", payload, "{state}", queueState,
		"{topic}", optional("topic", "text"), "{audit_only}", "coalesce("+optional("audit_only", "boolean")+", false)",
		"{occurred_at}", optional("occurred_at", "timestamp with time zone")), nil
}

// planning has every statement planned for its own values, so that filters that
// are not given vanish from the plan, and pages read from indexes in their
// order: the planner takes states for rare and would sort everything, and takes
// a table for empty that a vacuum once found so.
const planning = `SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true),
       set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)`

// read gives fn one snapshot of the database.
func (o *Operator) read(ctx context.Context, fn func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, o.db, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, planning); err != nil {
			return err
		}
		return fn(tx)
	})
}

// lockPatience is how long a change waits for rows that somebody else holds.
const lockPatience = 5 * time.Second

// write gives fn a transaction whose every statement sees what was committed
// before it.
func (o *Operator) write(ctx context.Context, fn func(pgx.Tx) error) error {
	err := pgx.BeginTxFunc(ctx, o.db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, planning); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT set_config('lock_timeout', $1, true)`, lockPatience.String()); err != nil {
			return err
		}
		return fn(tx)
	})
	if isLockTimeout(err) {
		return fmt.Errorf("%w for %s; nothing of this step was changed: %w", ErrBusy, lockPatience, err)
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
