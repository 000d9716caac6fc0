package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox"
)

// TestWritersQueue lets writers without expectation fill the same streams, in
// single events and in batches of all sizes and orders.
func TestWritersQueue(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 4))
	p := producer(t, outbox.Config{})
	const writers, rounds, streams = 4, 30, 5
	group, ctx := errgroup.WithContext(t.Context())
	for w := range writers {
		group.Go(func() error {
			for r := range rounds {
				var events []outbox.Event
				for i := range 1 + (w+r)%4*30 {
					events = append(events, outbox.Event{StreamID: fmt.Sprint("s-", (w*7+r*3+i*(w+1))%streams), Type: "t"})
				}
				if _, err := appendAll(ctx, pool, p, events...); err != nil {
					return fmt.Errorf("writer %d: %w", w, err)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	// Versions without gap, and sequences that ascend with them.
	bad := one[int](t, pool, `SELECT count(*) FROM (
		SELECT stream_version, row_number() OVER (PARTITION BY stream_id ORDER BY sequence) AS nth FROM events) AS e WHERE stream_version <> nth`)
	if bad != 0 {
		t.Errorf("%d events have a version out of order", bad)
	}
}

// TestOneWins lets writers expect the same version: one may write it, whatever
// way through the SQL each of them takes.
func TestOneWins(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 4))
	p := producer(t, outbox.Config{})
	for version := range int64(10) {
		results := make(chan error, 4)
		for w := range 4 {
			events := []outbox.Event{{StreamID: "contended", Type: "t", ExpectedVersion: outbox.ExactVersion(version)}}
			for i := range []int{0, 0, 1, 99}[w] {
				events = append(events, outbox.Event{StreamID: fmt.Sprintf("other-%d-%d-%d", version, w, i), Type: "t"})
			}
			go func() {
				_, err := appendAll(t.Context(), pool, p, events...)
				results <- err
			}()
		}
		won := 0
		for range 4 {
			switch err := <-results; {
			case err == nil:
				won++
			case !errors.Is(err, outbox.ErrVersionConflict):
				t.Errorf("version %d: %v", version, err)
			}
		}
		if won != 1 {
			t.Errorf("version %d was written %d times", version, won)
		}
	}
}

func TestConflictTellsVersions(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 4))
	p := producer(t, outbox.Config{})
	event := outbox.Event{StreamID: "s", Type: "t", ExpectedVersion: outbox.ExactVersion(0)}
	for _, events := range [][]outbox.Event{{event}, {event, event}} {
		_, first := appendAll(t.Context(), pool, p, events...)
		_, err := appendAll(t.Context(), pool, p, events...)
		var conflict *outbox.VersionConflictError
		if !errors.Is(err, outbox.ErrVersionConflict) || !errors.As(err, &conflict) {
			t.Fatalf("append: %v, %v", first, err)
		}
		if conflict.Stream != "s" || conflict.Expected != 0 || conflict.Actual != 1 {
			t.Errorf("conflict: %+v", conflict)
		}
	}
}

// TestRepeatableRead: under a stricter isolation the waiting writer cannot see
// what it waited for; it must fail and not write a wrong version.
func TestRepeatableRead(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 4))
	p := producer(t, outbox.Config{})
	err := pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT`); err != nil {
			return err
		}
		if _, err := appendAll(t.Context(), pool, p, outbox.Event{StreamID: "s", Type: "t"}); err != nil {
			return err
		}
		_, err := p.AppendTx(t.Context(), tx, outbox.Event{StreamID: "s", Type: "t"})
		return err
	})
	if !errors.Is(err, outbox.ErrVersionConflict) {
		t.Errorf("append: %v", err)
	}
}

// TestDedupe lets writers race with the same keys, alone and in batches.
func TestDedupe(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 4))
	p := producer(t, outbox.Config{})
	const keys, writers = 20, 4
	group, ctx := errgroup.WithContext(t.Context())
	results := make([]map[string]outbox.Appended, writers)
	for w := range writers {
		results[w] = map[string]outbox.Appended{}
		group.Go(func() error { return appendKeys(ctx, p, pool.BeginTx, w, keys, results[w]) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, pool, `SELECT count(*) FROM events`); n != keys {
		t.Errorf("%d events, want %d", n, keys)
	}
	for key, a := range results[0] {
		firsts := 0
		for w := range writers {
			b := results[w][key]
			if b.Sequence != a.Sequence || b.EventID != a.EventID || b.StreamVersion != a.StreamVersion || b.Duplicate == b.Enqueued {
				t.Errorf("key %s: %+v and %+v", key, a, b)
			}
			if !b.Duplicate {
				firsts++
			}
		}
		if firsts != 1 {
			t.Errorf("key %s was new to %d writers", key, firsts)
		}
	}
}

// appendKeys appends one event per key: one writer singly, the others in batches of several sizes.
func appendKeys(ctx context.Context, p *outbox.Producer, begin func(context.Context, pgx.TxOptions) (pgx.Tx, error),
	w, keys int, result map[string]outbox.Appended,
) error {
	for at := 0; at < keys; {
		size := min(1+w*3, keys-at)
		var events []outbox.Event
		for i := range size {
			key := fmt.Sprint("k-", at+size-1-i)
			events = append(events, outbox.Event{StreamID: key, Type: "t", Topic: "x", DedupeKey: key})
		}
		at += size
		tx, err := begin(ctx, pgx.TxOptions{})
		if err != nil {
			return err
		}
		appended, err := p.AppendTx(ctx, tx, events...)
		if err != nil {
			return errors.Join(err, tx.Rollback(ctx))
		}
		if err := tx.Commit(ctx); err != nil {
			return err
		}
		for i, a := range appended {
			result[events[i].DedupeKey] = a
		}
	}
	return nil
}

func TestDedupeWithinABatch(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 4))
	p := producer(t, outbox.Config{})
	if _, err := appendAll(t.Context(), pool, p, outbox.Event{StreamID: "s", Type: "t", DedupeKey: "old"}); err != nil {
		t.Fatal(err)
	}
	appended, err := appendAll(t.Context(), pool, p,
		outbox.Event{StreamID: "s", Type: "t", DedupeKey: "new"},
		outbox.Event{StreamID: "s", Type: "t", DedupeKey: "old"},
		outbox.Event{StreamID: "s", Type: "t"},
		outbox.Event{StreamID: "s", Type: "t", DedupeKey: "new"},
		outbox.Event{StreamID: "s", Type: "t", DedupeKey: "old", Topic: "other"})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, a := range appended {
		got += fmt.Sprintf("%d %v %v; ", a.StreamVersion, a.Duplicate, a.Enqueued)
	}
	if want := "2 false true; 1 true false; 3 false true; 2 true false; 4 false true; "; got != want {
		t.Errorf("appended: %s, want %s", got, want)
	}
	if appended[3].Sequence != appended[0].Sequence || appended[3].EventID != appended[0].EventID {
		t.Errorf("the repeat is not the first: %+v, %+v", appended[0], appended[3])
	}
	if n := one[int](t, pool, `SELECT count(*) FROM outbox_dedupe_keys AS d JOIN events AS e ON e.sequence = d.global_sequence`); n != 3 {
		t.Errorf("%d keys point to events, want 3", n)
	}
}

func TestEventIDExists(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 4))
	p := producer(t, outbox.Config{})
	event := outbox.Event{ID: uuid.New(), StreamID: "s", Type: "t"}
	if _, err := appendAll(t.Context(), pool, p, event); err != nil {
		t.Fatal(err)
	}
	for _, events := range [][]outbox.Event{{event}, {event, {StreamID: "u", Type: "t"}}} {
		if _, err := appendAll(t.Context(), pool, p, events...); !errors.Is(err, outbox.ErrDuplicateEvent) {
			t.Errorf("append: %v", err)
		}
	}
}

func TestRollbackLeavesNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 4))
	p := producer(t, outbox.Config{})
	gaveUp := errors.New("gave up")
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := p.AppendTx(t.Context(), tx, outbox.Event{StreamID: "s", Type: "t", DedupeKey: "k"}); err != nil {
			return err
		}
		return gaveUp
	})
	if !errors.Is(err, gaveUp) {
		t.Fatal(err)
	}
	if n := one[int](t, pool, `SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM outbox) + (SELECT count(*) FROM outbox_dedupe_keys)`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

func TestInvalidEvents(t *testing.T) {
	t.Parallel()
	p := producer(t, outbox.Config{MaxPayloadBytes: 10})
	long := strings.Repeat("x", 1025)
	headers := func(name, value string) outbox.Event {
		return outbox.Event{StreamID: "s", Type: "t", Metadata: outbox.Metadata{Headers: map[string]string{name: value}}}
	}
	for field, events := range map[string][]outbox.Event{
		"StreamID":               {{Type: "t"}, {StreamID: long, Type: "t"}, {StreamID: "a\x00", Type: "t"}, {StreamID: "\xff", Type: "t"}, {StreamID: " a", Type: "t"}, {StreamID: "a ", Type: "t"}},
		"Type":                   {{StreamID: "s"}, {StreamID: "s", Type: "a\nb"}, {StreamID: "s", Type: "a\u0085"}},
		"Topic":                  {{StreamID: "s", Type: "t", Topic: long}},
		"TenantID":               {{StreamID: "s", Type: "t", TenantID: "\r"}},
		"DedupeKey":              {{StreamID: "s", Type: "t", DedupeKey: "\x7f"}},
		"PartitionKey":           {{StreamID: "s", Type: "t", PartitionKey: "\t"}},
		"ExpectedVersion":        {{StreamID: "s", Type: "t", ExpectedVersion: outbox.ExactVersion(-1)}},
		"OccurredAt":             {{StreamID: "s", Type: "t", OccurredAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, {StreamID: "s", Type: "t", OccurredAt: time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC)}},
		"AvailableAt":            {{StreamID: "s", Type: "t", AvailableAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}},
		"Metadata.TraceParent":   {{StreamID: "s", Type: "t", Metadata: outbox.Metadata{TraceParent: "a\r\nb: c"}}},
		"Metadata.TraceState":    {{StreamID: "s", Type: "t", Metadata: outbox.Metadata{TraceState: long}}},
		"Metadata.CorrelationID": {{StreamID: "s", Type: "t", Metadata: outbox.Metadata{CorrelationID: "\n"}}},
		"Metadata.CausationID":   {{StreamID: "s", Type: "t", Metadata: outbox.Metadata{CausationID: "\n"}}},
		"Metadata.Headers": {
			headers("", "x"), headers("a b", "x"), headers("a:", "x"), headers("ä", "x"), headers("a\r", "x"), headers(strings.Repeat("a", 129), "x"),
			headers("Status", "x"), headers("description", "x"), headers("kv-OPERATION", "x"), headers("NATS-Msg-Id", "x"), headers("outbox-epoch", "x"), headers("a", "x\r\ny"), headers("a", "x\u009by"), headers("a", "\xff"), headers("a", strings.Repeat("x", 32768)),
		},
	} {
		for _, event := range events {
			_, err := p.AppendTx(t.Context(), nil, outbox.Event{StreamID: "fine", Type: "t"}, event)
			var invalid *outbox.InvalidEventError
			if !errors.Is(err, outbox.ErrInvalidEvent) || !errors.As(err, &invalid) || invalid.Field != field || invalid.Index != 1 {
				t.Errorf("%s: %v", field, err)
			}
		}
	}
	_, err := p.AppendTx(t.Context(), nil, outbox.Event{StreamID: "s", Type: "t", Payload: make([]byte, 11)})
	if !errors.Is(err, outbox.ErrPayloadTooLarge) {
		t.Errorf("large payload: %v", err)
	}
}

func TestDatabaseLimit(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 4))
	if _, err := pool.Exec(t.Context(), `UPDATE outbox_settings SET max_payload_bytes = 3`); err != nil {
		t.Fatal(err)
	}
	p := producer(t, outbox.Config{})
	for _, n := range []int{1, 2} {
		events := make([]outbox.Event, n)
		for i := range events {
			events[i] = outbox.Event{StreamID: "s", Type: "t", Payload: []byte("four")}
		}
		if _, err := appendAll(t.Context(), pool, p, events...); !errors.Is(err, outbox.ErrPayloadTooLarge) {
			t.Errorf("append: %v", err)
		}
	}
}

// A payload that does not fit the schema of its type ends the transaction, and the error tells which event, where and why.
func TestPayloadsFitTheirSchemas(t *testing.T) {
	t.Parallel()
	address := pgtest.Migrated(t, 4)
	pool := pgtest.Pool(t, address)
	if _, err := pool.Exec(t.Context(), `INSERT INTO outbox_types (event_type, json_schema, checked)
		VALUES ('checked', '{"properties": {"n": {"type": "integer"}}}', true), ('told', '{"format": "any"}', false)`); err != nil {
		t.Fatal(err)
	}
	p, db := producer(t, outbox.Config{}), openSQL(t, address, pgx.QueryExecModeExec)
	event := func(kind, payload string) outbox.Event {
		return outbox.Event{StreamID: "s", Type: kind, Payload: []byte(payload)}
	}
	good, bad := event("checked", `{"n": 1}`), event("checked", `{"n": "secret"}`)
	for _, c := range []struct {
		events  []outbox.Event
		index   int
		pointer string
	}{
		{[]outbox.Event{bad}, 0, "/n"},
		{[]outbox.Event{good, event("told", `?`), bad, bad}, 2, "/n"},
		{[]outbox.Event{event("told", `?`), event("checked", `{`)}, 1, ""},
		{[]outbox.Event{{StreamID: "s", Type: "checked"}}, 0, ""},
	} {
		_, one := appendAll(t.Context(), pool, p, c.events...)
		_, two := inSQL(t.Context(), db, p, c.events...)
		for _, err := range []error{one, two} {
			var unfit *outbox.PayloadSchemaError
			if !errors.Is(err, outbox.ErrPayloadSchema) || !errors.As(err, &unfit) {
				t.Fatalf("%+v: %v", c, err)
			}
			if unfit.Index != c.index || unfit.Type != "checked" || unfit.Pointer != c.pointer || unfit.Rule == "" || strings.Contains(err.Error(), "secret") {
				t.Errorf("%+v: %+v: %v", c, unfit, err)
			}
		}
	}
	if n := one[int](t, pool, `SELECT count(*) FROM events`); n != 0 {
		t.Errorf("%d events of refused calls are there", n)
	}
	if _, err := appendAll(t.Context(), pool, p, good, event("told", `?`), good); err != nil {
		t.Error(err)
	}
}
