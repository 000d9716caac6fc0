package outboxtest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/outbox"
)

// Stored is an event as it was appended, with the outbox's values filled in. ExpectedVersion is not stored.
type Stored struct {
	outbox.Event
	// Sequence is the global sequence.
	Sequence int64
	// StreamVersion is the event's version in its stream, 1 for the first.
	StreamVersion int64
}

// Events are those of a transaction, in their order.
type Events []Stored

const readStatement = "/* outboxtest.Read */ "

// read returns a query for the transaction's rows: those of its own id or of one of its savepoints, which are later and in progress.
func read(schema string) (string, error) {
	if err := pg.CheckSchema(schema); err != nil {
		return "", err
	}
	name := pgx.Identifier{schema}.Sanitize()
	return readStatement + `SELECT e.sequence, e.event_id, e.stream_id, e.stream_version, e.event_type, e.topic, coalesce(e.tenant_id, ''),
       coalesce(e.routing_key, e.stream_id), coalesce(d.dedupe_key, ''), e.payload, jsonb_build_object('traceparent', e.metadata ->> 'traceparent', 'tracestate', e.metadata ->> 'tracestate',
           'correlation_id', e.metadata ->> 'correlation_id', 'causation_id', e.metadata ->> 'causation_id',
           'headers', CASE WHEN jsonb_typeof(e.metadata -> 'headers') = 'object' THEN
               (SELECT jsonb_object_agg(h.key, h.value) FROM jsonb_each(e.metadata -> 'headers') AS h WHERE jsonb_typeof(h.value) = 'string') END)::text, e.audit_only,
       least(greatest(e.occurred_at, '0001-01-01 00:00:00.000001Z'::timestamptz), '9999-12-31 23:59:59.999999Z'::timestamptz),
       CASE WHEN p.available_at IS NOT NULL THEN least(greatest(p.available_at, '0001-01-01 00:00:00.000001Z'::timestamptz), '9999-12-31 23:59:59.999999Z'::timestamptz) END
  FROM (SELECT pg_current_xact_id_if_assigned()::text::bigint AS id) AS own
 CROSS JOIN ` + name + `.events AS e
 CROSS JOIN LATERAL (SELECT (e.xmin::text::bigint - own.id) & 4294967295 AS later) AS x
  LEFT JOIN ` + name + `.outbox_dedupe_keys AS d ON d.global_sequence = e.sequence
  LEFT JOIN ` + name + `.outbox_parked AS p ON p.global_sequence = e.sequence
 WHERE CASE WHEN x.later < 2147483648 THEN pg_xact_status((own.id + x.later)::text::xid8) = 'in progress' END
 ORDER BY e.sequence`, nil
}

// Read returns the events of tx so far in the schema's outbox. tx must be able to read the tables, as their owner does. A Fake is the same in
// every schema.
func Read(t testing.TB, tx outbox.Tx, schema string) Events {
	t.Helper()
	return collect(t, schema, func(text string) (pg.Rows, error) { return tx.Query(t.Context(), text) })
}

// ReadSQL is Read for database/sql.
func ReadSQL(t testing.TB, tx outbox.SQLTx, schema string) Events {
	t.Helper()
	return collect(t, schema, func(text string) (pg.Rows, error) { return pg.QuerySQL(t.Context(), tx, text) })
}

func collect(t testing.TB, schema string, query func(text string) (pg.Rows, error)) Events {
	t.Helper()
	text, err := read(schema)
	if err != nil {
		t.Fatalf("outboxtest: %v", err)
	}
	rows, err := query(text)
	if err != nil {
		t.Fatalf("outboxtest: read what was appended: %v", err)
	}
	defer rows.Close()
	var events Events
	for rows.Next() {
		e, err := scan(rows)
		if err != nil {
			t.Fatalf("outboxtest: read what was appended: %v", err)
		}
		events = append(events, e)
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("outboxtest: read what was appended: %v", err)
	}
	return events
}

func scan(rows pg.Rows) (e Stored, err error) {
	var metadata string
	var available *time.Time
	err = rows.Scan(&e.Sequence, &e.ID, &e.StreamID, &e.StreamVersion, &e.Type, &e.Topic, &e.TenantID, &e.PartitionKey, &e.DedupeKey,
		&e.Payload, &metadata, &e.AuditOnly, &e.OccurredAt, &available)
	if err != nil {
		return e, err
	}
	if available != nil {
		e.AvailableAt = *available
	}
	if err := json.Unmarshal([]byte(metadata), &e.Metadata); err != nil {
		return e, fmt.Errorf("metadata %s: %w", metadata, err)
	}
	return e, nil
}
