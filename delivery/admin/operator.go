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
	find, event, payload, pointer, behind, before     string
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

var troubleRow = strings.NewReplacer("{trouble}", trouble)

// New returns an operator on the tables of that schema and looks at the events
// relation's columns: a missing relation or column is delivery.ErrEventsRelation.
func New(ctx context.Context, db DB, schema string, events delivery.Relation) (*Operator, error) {
	set, err := sqlfile.Load(embedded, "sql", schema)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	t, err := set.Need("queue_keys", "history_keys", "queued_between", "deliveries", "lane", "window", "skipped",
		"find", "event", "payload", "pointer", "behind", "before", "states", "selected", "lock",
		"requeue", "settle", "promote", "waiting", "audit", "partitions", "pause", "columns",
		"audit_page", "actions", "heads", "partition_deliveries", "worker", "drain", "may_read_audit", "rights",
		"rows", "among", "named", "past", "stream")
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	if events.Schema == "" {
		events.Schema = schema
	}
	if events.Name == "" {
		events.Name = "events"
	}
	o := &Operator{db: db}
	var columns *strings.Replacer
	if err := o.read(ctx, func(tx pgx.Tx) error {
		columns, err = eventsColumns(ctx, tx, t[23], events)
		return err
	}); err != nil {
		return nil, err
	}
	for i := range t {
		t[i] = columns.Replace(t[i])
	}
	o.queueKeys, o.historyKeys, o.queuedBetween, o.deliveries = t[0], t[1], t[2], t[3]
	o.ready, o.parked, o.troubled = newLane(t[4], " AND NOT o.parked"), newLane(t[4], " AND o.parked"), newLane(t[4], trouble)
	o.window, o.skipped = newDirected(t[5]), newDirected(t[6])
	o.find, o.event, o.payload, o.pointer, o.behind, o.before = t[7], t[8], t[9], t[10], t[11], t[12]
	o.states, o.selected, o.lock = t[13], troubleRow.Replace(t[14]), t[15]
	o.requeue, o.settle, o.promote, o.waiting, o.audit = t[16], t[17], t[18], t[19], t[20]
	o.partitions, o.pause = t[21], t[22]
	o.auditPage, o.actions, o.heads, o.batches, o.worker, o.drain = t[24], t[25], troubleRow.Replace(t[26]), t[27], t[28], t[29]
	o.mayReadAudit, o.rights = t[30], t[31]
	o.rows, o.among, o.named, o.past, o.stream = t[32], t[33], t[34], t[35], t[36]
	return o, nil
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
