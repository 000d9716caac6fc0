package outbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/partition"
)

// TestAppendStoresEverything reads back each field, for one event and for a batch,
// which take different ways through the SQL.
func TestAppendStoresEverything(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 64))
	p := producer(t, outbox.Config{})
	occurred := time.Date(2024, 2, 29, 12, 0, 0, 123000, time.UTC)
	full := outbox.Event{
		StreamID: "ord€r-1", Type: "order.paid", Topic: "shop", TenantID: "acme", PartitionKey: "customer-9",
		Payload: []byte("\x00\xff {not json"), ExpectedVersion: outbox.ExactVersion(0), OccurredAt: occurred,
		Metadata: outbox.Metadata{
			TraceParent: "00-1-2-01", TraceState: "a=b", CorrelationID: "c", CausationID: "d",
			Headers: map[string]string{"x-a": "tab\tbed", "empty": ""},
		},
	}
	for _, name := range []string{"one", "batch"} {
		full.ID, full.StreamID = uuid.New(), "ord€r-"+name
		events := []outbox.Event{full}
		if name == "batch" {
			events = append(events, outbox.Event{StreamID: "plain", Type: "t"}, outbox.Event{StreamID: "audit", Type: "t", AuditOnly: true})
		}
		appended, err := appendAll(t.Context(), pool, p, events...)
		if err != nil {
			t.Fatal(err)
		}
		want := outbox.Appended{
			Sequence: appended[0].Sequence, EventID: full.ID, StreamVersion: 1, Partition: partition.Of("customer-9", 64), Enqueued: true,
		}
		if appended[0] != want {
			t.Errorf("%s: appended %+v, want %+v", name, appended[0], want)
		}
		got := one[string](t, pool, `SELECT format('%s|%s|%s|%s|%s|%s|%s', event_id, event_type, topic, tenant_id, routing_key, metadata, occurred_at AT TIME ZONE 'UTC')
			FROM events WHERE sequence = $1`, appended[0].Sequence)
		if want := full.ID.String() + `|order.paid|shop|acme|customer-9|{"headers": {"x-a": "tab\tbed", "empty": ""}, "tracestate": "a=b", "traceparent": "00-1-2-01", "causation_id": "d", "correlation_id": "c"}|2024-02-29 12:00:00.000123`; got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
		if payload := one[[]byte](t, pool, `SELECT payload FROM events WHERE sequence = $1`, appended[0].Sequence); !bytes.Equal(payload, full.Payload) {
			t.Errorf("%s: payload %q", name, payload)
		}
		if at := one[partition.ID](t, pool, `SELECT partition_key FROM outbox WHERE global_sequence = $1`, appended[0].Sequence); at != want.Partition {
			t.Errorf("%s: queued in partition %d, want %d", name, at, want.Partition)
		}
		for i, e := range appended[1:] {
			if e.EventID.Version() != 7 || e.Enqueued != (i == 0) || e.Sequence != appended[0].Sequence+int64(i)+1 {
				t.Errorf("%s: appended %+v", name, e)
			}
		}
	}
	if n := one[int](t, pool, `SELECT count(*) FROM events WHERE metadata IS NULL AND tenant_id IS NULL AND routing_key IS NULL AND payload = ''`); n != 2 {
		t.Errorf("%d plain events, want 2", n)
	}
}

// TestBatchOrder appends many events over few streams and looks at the order.
func TestBatchOrder(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 7))
	p := producer(t, outbox.Config{})
	events := make([]outbox.Event, 1700)
	for i := range events {
		events[i] = outbox.Event{StreamID: fmt.Sprintf("s-%d", i*i%13), Type: "t", Payload: fmt.Append(nil, i)}
	}
	for round := range 2 {
		appended, err := appendAll(t.Context(), pool, p, events...)
		if err != nil {
			t.Fatal(err)
		}
		versions := map[string]int64{}
		for i, a := range appended {
			stream := events[i].StreamID
			if i > 0 && a.Sequence <= appended[i-1].Sequence {
				t.Fatalf("event %d has sequence %d after %d", i, a.Sequence, appended[i-1].Sequence)
			}
			if round == 1 && versions[stream] == 0 {
				versions[stream] = a.StreamVersion - 1
			}
			if versions[stream]++; a.StreamVersion != versions[stream] || a.Partition != partition.Of(stream, 7) {
				t.Fatalf("event %d: %+v, want version %d", i, a, versions[stream])
			}
		}
	}
	bad := one[int](t, pool, `SELECT count(*) FROM (SELECT sequence, convert_from(payload, 'UTF8')::int AS i, lag(convert_from(payload, 'UTF8')::int) OVER (ORDER BY sequence) AS before FROM events) AS e
		WHERE i <> before + 1 AND i <> 0`)
	if bad != 0 {
		t.Errorf("%d events are out of the order of the input", bad)
	}
	if n := one[int](t, pool, `SELECT count(*) FROM outbox_ready JOIN events ON sequence = global_sequence`); n != 3400 {
		t.Errorf("%d pointer rows, want 3400", n)
	}
}

func TestPartitionerAndPolicy(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 64))
	p := producer(t, outbox.Config{
		Partitioner: func(e outbox.Event) string { return e.TenantID },
		Policy:      func(e outbox.Event) bool { return e.Type != "noise" },
	})
	appended, err := appendAll(t.Context(), pool, p,
		outbox.Event{StreamID: "a", Type: "t", TenantID: "acme"},
		outbox.Event{StreamID: "b", Type: "t"},
		outbox.Event{StreamID: "c", Type: "noise"},
		outbox.Event{StreamID: "d", Type: "t", TenantID: "acme", PartitionKey: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range []string{"acme", "b", "", "mine"} {
		if a := appended[i]; a.Enqueued != (key != "") || key != "" && a.Partition != partition.Of(key, 64) {
			t.Errorf("event %d: %+v, want key %q", i, a, key)
		}
	}
}

func TestAvailableAt(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 4))
	p := producer(t, outbox.Config{})
	later := time.Now().Add(time.Hour)
	for _, events := range [][]outbox.Event{
		{{StreamID: "a", Type: "t", AvailableAt: later}},
		{{StreamID: "b", Type: "t", AvailableAt: later}, {StreamID: "c", Type: "t"}},
	} {
		if _, err := appendAll(t.Context(), pool, p, events...); err != nil {
			t.Fatal(err)
		}
	}
	got := one[string](t, pool, `SELECT string_agg(stream_id || CASE WHEN parked AND available_at > clock_timestamp() THEN ' later' ELSE ' now' END, ', ' ORDER BY stream_id) FROM outbox`)
	if want := "a later, b later, c now"; got != want {
		t.Errorf("outbox: %s, want %s", got, want)
	}
}

// TestQueueAppend sends transactions in one round trip; the third one fails and
// takes nothing else with it.
func TestQueueAppend(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 4))
	p := producer(t, outbox.Config{})
	var batch pgx.Batch
	committed := 0
	for i := range 4 {
		batch.Queue("BEGIN")
		err := p.QueueAppend(&batch, func(appended []outbox.Appended) error {
			committed += len(appended)
			return nil
		}, outbox.Event{StreamID: "s", Type: "t", ExpectedVersion: outbox.ExactVersion([]int64{0, 1, 7, 2}[i])})
		if err != nil {
			t.Fatal(err)
		}
		batch.Queue("COMMIT")
	}
	queued := batch.Len()
	if err := p.QueueAppend(&batch, nil, outbox.Event{}); !errors.Is(err, outbox.ErrInvalidEvent) || batch.Len() != queued {
		t.Errorf("an invalid event: %v, %d statements queued", err, batch.Len()-queued)
	}
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if err := conn.SendBatch(t.Context(), &batch).Close(); !errors.Is(err, outbox.ErrVersionConflict) {
		t.Errorf("batch: %v", err)
	}
	if _, err := conn.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, pool, `SELECT count(*) FROM events`); n != 2 || committed != 2 {
		t.Errorf("%d events, %d reported, want 2", n, committed)
	}
}

func TestNothingToAppend(t *testing.T) {
	t.Parallel()
	appended, err := producer(t, outbox.Config{}).AppendTx(t.Context(), nil)
	if err != nil || appended != nil {
		t.Errorf("AppendTx without events = %v, %v", appended, err)
	}
}

func TestOtherSchema(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a.b", `x"y`, "ä"} {
		if _, err := outbox.New(outbox.Config{Schema: name}); !errors.Is(err, outbox.ErrConfig) {
			t.Errorf("schema %q: %v", name, err)
		}
	}
	if _, err := outbox.New(outbox.Config{MaxPayloadBytes: -1}); !errors.Is(err, outbox.ErrConfig) {
		t.Errorf("MaxPayloadBytes -1: %v", err)
	}
	if got := outbox.BellSubject("My schema.*>é"); got != "outbox.bell.My%20schema%2E%2A%3E%C3%A9" {
		t.Errorf("BellSubject = %s", got)
	}
}
