package outboxtest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/outbox/outboxtest"
)

func producer(t *testing.T) *outbox.Producer {
	t.Helper()
	p, err := outbox.New(outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// id is the same at each call.
func id(n byte) uuid.UUID { return uuid.UUID{15: n} }

var (
	occurred = time.Date(2024, 2, 29, 12, 0, 0, 123000, time.UTC)
	later    = time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)
)

// script is appended call by call.
func script() [][]outbox.Event {
	return [][]outbox.Event{
		{{
			ID: id(1), StreamID: "full", Type: "t", Topic: "shop", TenantID: "acme", DedupeKey: "k", PartitionKey: "p", Payload: []byte("\x00\xff"),
			ExpectedVersion: outbox.ExactVersion(0), OccurredAt: occurred, AvailableAt: later,
			Metadata: outbox.Metadata{
				TraceParent: "00-1", TraceState: "a=b", CorrelationID: "c", CausationID: "d", Headers: map[string]string{"x": "\ty"},
			},
		}},
		{
			{ID: id(2), StreamID: "s", Type: "a", OccurredAt: occurred},
			{ID: id(3), StreamID: "other", Type: "a", OccurredAt: occurred},
			{ID: id(4), StreamID: "s", Type: "b", OccurredAt: occurred, ExpectedVersion: outbox.ExactVersion(1), AvailableAt: occurred},
		},
		{{ID: id(5), StreamID: "s", Type: "c", ExpectedVersion: outbox.ExactVersion(1)}},
		{{ID: id(6), StreamID: "new", Type: "t"}, {ID: id(7), StreamID: "s", Type: "c", ExpectedVersion: outbox.ExactVersion(0)}},
		{{ID: id(8), StreamID: "s", Type: "a", Topic: "shop", DedupeKey: "k", ExpectedVersion: outbox.ExactVersion(99)}},
		{
			{ID: id(9), StreamID: "s", Type: "a", Topic: "x", DedupeKey: "k", OccurredAt: occurred},
			{ID: id(10), StreamID: "s", Type: "a", Topic: "x", DedupeKey: "k"},
			{ID: id(11), StreamID: "s", Type: "a", AuditOnly: true, OccurredAt: occurred, AvailableAt: later},
		},
		{{ID: id(2), StreamID: "again", Type: "t"}},
		{{ID: id(12), StreamID: "s", Type: "last", OccurredAt: occurred, ExpectedVersion: outbox.ExactVersion(4)}},
	}
}

// transcript is what the calls answered and what can be read in the end, without what is of one database alone.
type transcript struct {
	lines     []string
	sequences []int64
}

func (r *transcript) note(appended []outbox.Appended, err error) {
	if err != nil {
		var conflict *outbox.VersionConflictError
		detail := ""
		if errors.As(err, &conflict) {
			detail = fmt.Sprint(conflict.Stream, conflict.Expected, conflict.Actual)
		}
		r.lines = append(r.lines, fmt.Sprint("refused: ", errors.Is(err, outbox.ErrVersionConflict), errors.Is(err, outbox.ErrDuplicateEvent), detail))
	}
	for _, a := range appended {
		a.Sequence = r.nth(a.Sequence)
		r.lines = append(r.lines, fmt.Sprintf("%+v", a))
	}
}

// nth numbers the sequences by their first appearance: what is refused may draw some.
func (r *transcript) nth(sequence int64) int64 {
	if !slices.Contains(r.sequences, sequence) {
		r.sequences = append(r.sequences, sequence)
	}
	return int64(slices.Index(r.sequences, sequence))
}

func (r *transcript) end(events outboxtest.Events) string {
	for _, e := range events {
		e.Sequence, e.OccurredAt, e.AvailableAt = r.nth(e.Sequence), e.OccurredAt.UTC(), e.AvailableAt.UTC()
		r.lines = append(r.lines, fmt.Sprintf("%+v", e))
	}
	return strings.Join(r.lines, "\n")
}

// throughPgx plays the script in a transaction that is rolled back, each call in a savepoint.
func throughPgx(t *testing.T, p *outbox.Producer, outer pgx.Tx) string {
	t.Helper()
	var r transcript
	for _, events := range script() {
		var appended []outbox.Appended
		err := pgx.BeginFunc(t.Context(), outer, func(tx pgx.Tx) (err error) {
			appended, err = p.AppendTx(t.Context(), tx, events...)
			return err
		})
		r.note(appended, err)
	}
	return r.end(outboxtest.Read(t, outer, "public"))
}

// throughSQL does the same with database/sql, on the database.
func throughSQL(t *testing.T, p *outbox.Producer, db *sql.DB) string {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var r transcript
	run := func(statement string) {
		if _, err := tx.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for _, events := range script() {
		run(`SAVEPOINT s`)
		appended, err := p.AppendSQL(t.Context(), tx, events...)
		if r.note(appended, err); err != nil {
			run(`ROLLBACK TO s`)
		}
	}
	defer func() { _ = tx.Rollback() }()
	return r.end(outboxtest.ReadSQL(t, tx, "public"))
}

// TestAFakeAnswersAsTheDatabase plays the same calls on both, and on the database through database/sql too.
func TestAFakeAnswersAsTheDatabase(t *testing.T) {
	t.Parallel()
	address := pgtest.Migrated(t, outboxtest.Partitions)
	p := producer(t)
	outer, err := pgtest.Pool(t, address).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := throughPgx(t, p, outer)
	if err := outer.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(want, "refused: true"); n != 2 || !strings.Contains(want, "refused: false true") || strings.Count(want, "Duplicate:true") != 2 {
		t.Fatalf("the script should be refused twice for a version and once for an id, and meet two taken keys:\n%s", want)
	}
	db, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for name, got := range map[string]string{
		"a fake": throughPgx(t, p, outboxtest.NewFake()), "database/sql": throughSQL(t, p, db),
	} {
		if got != want {
			t.Errorf("through %s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

// TestAFakeAsADatabase appends through *sql.DB: what is committed is found in the fake, what is rolled back is not.
func TestAFakeAsADatabase(t *testing.T) {
	t.Parallel()
	p, fake := producer(t), outboxtest.NewFake()
	db := fake.DB(t)
	full := script()[0][0]
	for _, commit := range []bool{false, true, false} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.BeginTx(t.Context(), nil); err == nil {
			t.Error("a second transaction began")
		}
		full.ID, full.StreamID, full.DedupeKey = uuid.New(), fmt.Sprint("commit ", commit), fmt.Sprint("key ", commit)
		appended, err := p.AppendSQL(t.Context(), tx, full, outbox.Event{StreamID: "s", Type: "t"})
		if err != nil || !appended[0].Enqueued || appended[0].EventID != full.ID {
			t.Fatalf("appended %+v, %v", appended, err)
		}
		if events := outboxtest.ReadSQL(t, tx, "public"); len(events) != 2 {
			t.Errorf("the transaction has %d events", len(events))
		}
		if _, err := tx.ExecContext(t.Context(), `UPDATE orders SET paid = true`); !errors.Is(err, outboxtest.ErrNotOfTheOutbox) {
			t.Errorf("another statement: %v", err)
		}
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	events := outboxtest.Read(t, fake, "public")
	want := full
	want.ID, want.StreamID, want.DedupeKey = uuid.Nil, "commit true", ""
	if stored := events.Require(t, want); len(events) != 2 || stored.StreamVersion != 1 {
		t.Errorf("the fake has %d events, %+v", len(events), stored)
	}
}

// TestAFakeThatFailed takes nothing more until it is rolled back, like a transaction.
func TestAFakeThatFailed(t *testing.T) {
	t.Parallel()
	p := producer(t)
	fake := outboxtest.NewFake()
	wrong := outbox.Event{StreamID: "s", Type: "t", ExpectedVersion: outbox.ExactVersion(5)}
	ctx := t.Context()
	inner, err := fake.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.AppendTx(ctx, inner, outbox.Event{StreamID: "s", Type: "t"}, wrong); !errors.Is(err, outbox.ErrVersionConflict) {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"append": second(p.AppendTx(ctx, inner, outbox.Event{StreamID: "s", Type: "t"})), "begin": second(inner.Begin(ctx)), "commit": inner.Commit(ctx),
	} {
		if err == nil || !strings.Contains(err.Error(), "25P02") {
			t.Errorf("%s after a failure: %v", what, err)
		}
	}
	if err := inner.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := p.AppendTx(ctx, inner, outbox.Event{StreamID: "s", Type: "t"}); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("append after the end: %v", err)
	}
	if events := outboxtest.Read(t, fake, "public"); len(events) != 0 {
		t.Errorf("%d events are left of what failed", len(events))
	}
	for what, err := range map[string]error{
		"exec": second(fake.Exec(ctx, "SELECT 1")), "row": fake.QueryRow(ctx, "SELECT 1").Scan(), "batch": fake.SendBatch(ctx, nil).Close(),
		"copy": second(fake.CopyFrom(ctx, pgx.Identifier{"t"}, nil, nil)), "prepare": second(fake.Prepare(ctx, "", "SELECT 1")),
	} {
		if !errors.Is(err, outboxtest.ErrNotOfTheOutbox) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := p.AppendTx(ctx, fake, wrong); !errors.Is(err, outbox.ErrVersionConflict) {
		t.Fatal(err)
	}
	if err := fake.Commit(ctx); !errors.Is(err, pgx.ErrTxCommitRollback) {
		t.Errorf("commit of what failed: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestReadSeesItsOwnTransactionAlone: neither what was there, nor what others committed since it began; what its savepoints kept.
func TestReadSeesItsOwnTransactionAlone(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 4))
	p := producer(t)
	commit := func(stream string) {
		t.Helper()
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			return second(p.AppendTx(t.Context(), tx, outbox.Event{StreamID: stream, Type: "t"}))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	commit("before")
	gaveUp := errors.New("gave up")
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if events := outboxtest.Read(t, tx, "public"); len(events) != 0 {
			t.Errorf("before anything was appended there are %d events", len(events))
		}
		for stream, give := range map[string]error{"kept": nil, "undone": gaveUp} {
			err := pgx.BeginFunc(t.Context(), tx, func(inner pgx.Tx) error {
				return errors.Join(second(p.AppendTx(t.Context(), inner, outbox.Event{StreamID: stream, Type: "t"})), give)
			})
			if !errors.Is(err, give) {
				return err
			}
		}
		commit("beside")
		if _, err := p.AppendTx(t.Context(), tx, outbox.Event{StreamID: "mine", Type: "t"}); err != nil {
			return err
		}
		var streams []string
		for _, e := range outboxtest.Read(t, tx, "public") {
			streams = append(streams, e.StreamID)
		}
		if got := strings.Join(streams, " "); got != "kept mine" {
			t.Errorf("the transaction has appended to %s, want kept and mine", got)
		}
		return gaveUp
	})
	if !errors.Is(err, gaveUp) {
		t.Fatal(err)
	}
}

// judge is a testing.TB that keeps what it is told.
type judge struct {
	testing.TB
	said string
}

func (j *judge) Helper()                        {}
func (j *judge) Context() context.Context       { return j.TB.Context() }
func (j *judge) Fatalf(format string, a ...any) { j.said = fmt.Sprintf(format, a...); panic(j) }

// complaint is what the test was told when it was ended, nothing if it was not.
func complaint(t *testing.T, check func(*judge)) (said string) {
	t.Helper()
	j := &judge{TB: t}
	defer func() {
		if r := recover(); r != nil && r != any(j) {
			panic(r)
		}
		said = j.said
	}()
	check(j)
	return ""
}

// TestRequireComparesEachField takes an event with all fields, and changes one field of what is wanted at a time.
func TestRequireComparesEachField(t *testing.T) {
	t.Parallel()
	fake, p := outboxtest.NewFake(), producer(t)
	full := script()[0][0]
	full.Payload = []byte(`{"amount": 12345678901234567890, "to": "a"}`)
	audit := outbox.Event{StreamID: "audit", Type: "t", AuditOnly: true}
	for _, e := range []outbox.Event{full, audit} {
		if _, err := p.AppendTx(t.Context(), fake, e); err != nil {
			t.Fatal(err)
		}
	}
	events := outboxtest.Read(t, fake, "public")
	same := full
	same.Payload = []byte(`{"to":"a","amount":12345678901234567890}`)
	for _, want := range []outbox.Event{full, same, {StreamID: "full"}, audit} {
		if said := complaint(t, func(j *judge) { events.Require(j, want) }); said != "" {
			t.Errorf("%+v: %s", want, said)
		}
		if said := complaint(t, func(j *judge) { events.RequireNone(j, want) }); !strings.Contains(said, "1 of 2 events") {
			t.Errorf("none like %+v: %q", want, said)
		}
	}
	for field, change := range map[string]func(*outbox.Event){
		"ID":                     func(e *outbox.Event) { e.ID = id(99) },
		"StreamID":               func(e *outbox.Event) { e.StreamID = "z" },
		"Type":                   func(e *outbox.Event) { e.Type = "z" },
		"Topic":                  func(e *outbox.Event) { e.Topic = "z" },
		"TenantID":               func(e *outbox.Event) { e.TenantID = "z" },
		"DedupeKey":              func(e *outbox.Event) { e.DedupeKey = "z" },
		"PartitionKey":           func(e *outbox.Event) { e.PartitionKey = "z" },
		"Payload":                func(e *outbox.Event) { e.Payload = []byte(`{"amount": 12345678901234567891, "to": "a"}`) },
		"StreamVersion":          func(e *outbox.Event) { e.ExpectedVersion = outbox.ExactVersion(1) },
		"OccurredAt":             func(e *outbox.Event) { e.OccurredAt = later },
		"AvailableAt":            func(e *outbox.Event) { e.AvailableAt = occurred },
		"AuditOnly":              func(e *outbox.Event) { e.AuditOnly = true },
		"Metadata.TraceParent":   func(e *outbox.Event) { e.Metadata.TraceParent = "z" },
		"Metadata.TraceState":    func(e *outbox.Event) { e.Metadata.TraceState = "z" },
		"Metadata.CorrelationID": func(e *outbox.Event) { e.Metadata.CorrelationID = "z" },
		"Metadata.CausationID":   func(e *outbox.Event) { e.Metadata.CausationID = "z" },
		"Metadata.Headers[x]":    func(e *outbox.Event) { e.Metadata.Headers = map[string]string{"x": "z"} },
	} {
		want := full
		change(&want)
		said := complaint(t, func(j *judge) { events.Require(j, want) })
		_, first, _ := strings.Cut(said, "\n1. ")
		first, _, _ = strings.Cut(first, "\n2. ")
		if lines := strings.Split(first, "\n"); len(lines) != 2 || !strings.Contains(lines[1], " "+field+" is ") {
			t.Errorf("with another %s it says %q", field, said)
		}
		if said := complaint(t, func(j *judge) { events.RequireNone(j, want) }); said != "" {
			t.Errorf("none with another %s: %s", field, said)
		}
	}
	if said := complaint(t, func(j *judge) { events.Require(j, outbox.Event{Type: "t"}) }); !strings.Contains(said, "2 of 2 events") {
		t.Errorf("two of a kind: %q", said)
	}
	if said := complaint(t, func(j *judge) { outboxtest.Read(j, fake, `a"b`) }); !strings.Contains(said, "schema name") {
		t.Errorf("a hostile schema: %q", said)
	}
}
