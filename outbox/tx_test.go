package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox"
)

// openSQL opens the database through pgx's driver for database/sql in one of its modes.
func openSQL(t *testing.T, address string, mode pgx.QueryExecMode) *sql.DB {
	t.Helper()
	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = mode
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// inSQL appends in a transaction of database/sql.
func inSQL(ctx context.Context, db *sql.DB, p *outbox.Producer, events ...outbox.Event) ([]outbox.Appended, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	appended, err := p.AppendSQL(ctx, tx, events...)
	if err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return appended, tx.Commit()
}

// manifold are events with all that text could spoil. The name makes them differ from those of others.
func manifold(name string) []outbox.Event {
	at := time.Date(2999, 12, 31, 23, 59, 59, 123456000, time.FixedZone("", 3600))
	bytes := make([]byte, 256)
	for i := range bytes {
		bytes[i] = byte(i)
	}
	return []outbox.Event{
		{
			ID: uuid.New(), StreamID: name + ` "a",\{b} NULL'é`, Type: `null`, Topic: `{"NULL",,}`, TenantID: `\\x00`, DedupeKey: name + `$1 '`,
			PartitionKey: name + `{}`, Payload: bytes, ExpectedVersion: outbox.ExactVersion(0), OccurredAt: at, AvailableAt: at,
			Metadata: outbox.Metadata{TraceParent: `"`, TraceState: `\`, CorrelationID: `'`, CausationID: `{}`, Headers: map[string]string{"a": "\ttab, “quoted”", "b": ""}},
		},
		{StreamID: name + "plain", Type: "t"},
		{StreamID: name + "audit", Type: "t", Payload: []byte(`NULL`), AuditOnly: true},
	}
}

// TestAppendSQLStoresTheSame compares what each mode of the driver stores and answers with what AppendTx does, for one event and for a batch.
func TestAppendSQLStoresTheSame(t *testing.T) {
	t.Parallel()
	address := pgtest.Migrated(t, 64)
	pool := pgtest.Pool(t, address)
	p := producer(t, outbox.Config{})
	// stored describes all that was stored and answered, without what must differ.
	stored := func(name string, appended []outbox.Appended) string {
		var all strings.Builder
		for i, a := range appended {
			row := one[string](t, pool, `SELECT concat_ws(' ', e.stream_id, e.stream_version, e.event_type, e.topic, e.tenant_id, e.routing_key, e.payload, e.metadata,
				e.audit_only, CASE WHEN e.occurred_at > 'tomorrow' THEN e.occurred_at END, o.available_at, o.partition_key IS NOT NULL, k.dedupe_key)
				FROM events AS e LEFT JOIN outbox AS o ON o.global_sequence = e.sequence AND o.available_at > 'tomorrow'
				LEFT JOIN outbox_dedupe_keys AS k ON k.global_sequence = e.sequence WHERE e.sequence = $1 AND e.event_id = $2`, a.Sequence, a.EventID)
			fmt.Fprintf(&all, "%s: version %d, %v, %v; in order %v\n", strings.ReplaceAll(row, name, ""), a.StreamVersion, a.Duplicate, a.Enqueued,
				a.Sequence == appended[0].Sequence+int64(i))
		}
		return all.String()
	}
	for _, events := range []int{1, 3} {
		name := fmt.Sprintf("<tx %d>", events)
		appended, err := appendAll(t.Context(), pool, p, manifold(name)[:events]...)
		if err != nil {
			t.Fatal(err)
		}
		want := stored(name, appended)
		for _, mode := range []pgx.QueryExecMode{
			pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec,
			pgx.QueryExecModeSimpleProtocol,
		} {
			name := fmt.Sprintf("<%s %d>", mode, events)
			given := manifold(name)[:events]
			appended, err := inSQL(t.Context(), openSQL(t, address, mode), p, given...)
			if err != nil {
				t.Fatalf("%s: %v", mode, err)
			}
			if got := stored(name, appended); got != want || appended[0].EventID != given[0].ID {
				t.Errorf("%s, %d events:\n got %s\nwant %s", mode, events, got, want)
			}
		}
	}
}

// TestAppendSQLAnswers: what is refused and what was there says so as AppendTx does.
func TestAppendSQLAnswers(t *testing.T) {
	t.Parallel()
	address := pgtest.Migrated(t, 4)
	db := openSQL(t, address, pgx.QueryExecModeCacheStatement)
	p := producer(t, outbox.Config{})
	first := outbox.Event{ID: uuid.New(), StreamID: "s", Type: "t", DedupeKey: "k"}
	appended, err := inSQL(t.Context(), db, p, first)
	if err != nil {
		t.Fatal(err)
	}
	again, err := inSQL(t.Context(), db, p, outbox.Event{StreamID: "s", Type: "t", DedupeKey: "k"})
	if err != nil || !again[0].Duplicate || again[0].EventID != first.ID || again[0].Sequence != appended[0].Sequence {
		t.Errorf("a taken dedupe key: %+v, %v", again, err)
	}
	first.DedupeKey = ""
	if _, err := inSQL(t.Context(), db, p, first); !errors.Is(err, outbox.ErrDuplicateEvent) {
		t.Errorf("an id that exists: %v", err)
	}
	var conflict *outbox.VersionConflictError
	if _, err := inSQL(t.Context(), db, p, outbox.Event{StreamID: "s", Type: "t", ExpectedVersion: outbox.ExactVersion(7)}); !errors.As(err, &conflict) ||
		conflict.Expected != 7 || conflict.Actual != 1 {
		t.Errorf("another version: %v", err)
	}
	if _, err := inSQL(t.Context(), db, p, outbox.Event{}); !errors.Is(err, outbox.ErrInvalidEvent) {
		t.Errorf("an invalid event: %v", err)
	}
	if appended, err := p.AppendSQL(t.Context(), nil); appended != nil || err != nil {
		t.Errorf("no events: %v, %v", appended, err)
	}
}

// TestOnlyInATransaction: what would be committed by itself is refused where that shows; a connection after BEGIN is a transaction.
func TestOnlyInATransaction(t *testing.T) {
	t.Parallel()
	address := pgtest.Migrated(t, 4)
	pool, db := pgtest.Pool(t, address), openSQL(t, address, pgx.QueryExecModeCacheStatement)
	p := producer(t, outbox.Config{})
	event := outbox.Event{StreamID: "s", Type: "t"}
	acquired, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer acquired.Release()
	for _, tx := range []outbox.Tx{pool, acquired, acquired.Conn()} {
		if _, err := p.AppendTx(t.Context(), tx, event); !errors.Is(err, outbox.ErrNoTransaction) || !strings.Contains(err.Error(), fmt.Sprintf("%T", tx)) {
			t.Errorf("%T: %v", tx, err)
		}
	}
	for _, tx := range []outbox.SQLTx{db, struct{ *sql.DB }{db}} {
		if _, err := p.AppendSQL(t.Context(), tx, event); !errors.Is(err, outbox.ErrNoTransaction) {
			t.Errorf("%T: %v", tx, err)
		}
	}
	begun, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = begun.Close(context.Background()) }()
	one, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = one.Close() }()
	for _, step := range []func() error{
		func() error { _, err := begun.Exec(t.Context(), `BEGIN`); return err },
		func() error { _, err := p.AppendTx(t.Context(), begun, event); return err },
		func() error { _, err := begun.Exec(t.Context(), `ROLLBACK`); return err },
		func() error { _, err := one.ExecContext(t.Context(), `BEGIN`); return err },
		func() error { _, err := p.AppendSQL(t.Context(), one, event); return err },
		func() error { _, err := one.ExecContext(t.Context(), `ROLLBACK`); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	var left int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM events`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d events are left: %v", left, err)
	}
}
