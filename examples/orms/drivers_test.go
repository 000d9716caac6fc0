package orms_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/outbox/outboxtest"
)

// manifold are events with all that a driver could spoil on its way.
func manifold() []outbox.Event {
	at := time.Date(2999, 12, 31, 23, 59, 59, 123456000, time.UTC)
	bytes := make([]byte, 256)
	for i := range bytes {
		bytes[i] = byte(i)
	}
	return []outbox.Event{
		{
			ID: uuid.New(), StreamID: `"a",\{b} NULL'é?$1`, Type: `null`, Topic: `{"NULL",,}`, TenantID: `\\x00`, DedupeKey: `$1 '`,
			PartitionKey: `{}`, Payload: bytes, ExpectedVersion: outbox.ExactVersion(0), OccurredAt: at, AvailableAt: at,
			Metadata: outbox.Metadata{TraceParent: `"`, TraceState: `\`, CorrelationID: `'`, CausationID: `{}`, Headers: map[string]string{"a": "\ttab, “quoted”", "b": ""}},
		},
		{ID: uuid.New(), StreamID: "plain", Type: "t", OccurredAt: at},
		{ID: uuid.New(), StreamID: "audit", Type: "t", Payload: []byte(`NULL`), OccurredAt: at, AuditOnly: true},
	}
}

// TestDriversAppendTheSame compares what each driver stores with what AppendTx does, and its errors.
func TestDriversAppendTheSame(t *testing.T) {
	t.Parallel()
	address := pgtest.Migrated(t, 64)
	p := producer(t)
	tx, err := pgtest.Pool(t, address).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	given := manifold()
	if _, err := p.AppendTx(t.Context(), tx, given...); err != nil {
		t.Fatal(err)
	}
	want := described(outboxtest.Read(t, tx, "public"))
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, db := range drivers(t, address) {
		for wrong, again := range map[error]outbox.Event{
			outbox.ErrVersionConflict: {StreamID: "plain", Type: "t", ExpectedVersion: outbox.ExactVersion(7)},
			outbox.ErrDuplicateEvent:  {ID: given[0].ID, StreamID: "other", Type: "t"},
		} {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			appended, err := p.AppendSQL(t.Context(), tx, given...)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := described(outboxtest.ReadSQL(t, tx, "public")); got != want || appended[2].EventID != given[2].ID {
				t.Errorf("%s answers %+v and stores\n%s\nwant\n%s", name, appended, got, want)
			}
			_, err = p.AppendSQL(t.Context(), tx, again)
			if !errors.Is(err, wrong) {
				t.Errorf("%s: %v, want %v", name, err, wrong)
			}
			var conflict *outbox.VersionConflictError
			if errors.Is(wrong, outbox.ErrVersionConflict) &&
				(!errors.As(err, &conflict) || conflict.Stream != "plain" || conflict.Expected != 7 || conflict.Actual != 1) {
				t.Errorf("%s: the conflict tells %+v", name, conflict)
			}
			if err := tx.Rollback(); err != nil {
				t.Errorf("%s: roll back: %v", name, err)
			}
		}
	}
}

// described is what must be the same for all drivers.
func described(events outboxtest.Events) (text string) {
	for _, e := range events {
		e.Sequence, e.OccurredAt, e.AvailableAt = 0, e.OccurredAt.UTC(), e.AvailableAt.UTC()
		text += fmt.Sprintf("%+v\n", e)
	}
	return text
}
