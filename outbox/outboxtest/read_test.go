package outboxtest_test

import (
	"reflect"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/outbox/outboxtest"
)

// What another than the outbox wrote of times is read within bounds.
func TestFarTimesAreRead(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 4))
	for _, far := range []string{"infinity", "-infinity", "294276-12-31Z", "4713-01-01Z BC"} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `INSERT INTO events (stream_id, stream_version, event_type, payload, occurred_at) VALUES ($1, 1, 't', '', $1::text::timestamptz)`, far)
			if err != nil {
				return err
			}
			if events := outboxtest.Read(t, tx, "public"); len(events) != 1 || events[0].OccurredAt.UTC().Year() < 1 || events[0].OccurredAt.UTC().Year() > 9999 {
				t.Errorf("%s is read as %+v", far, events)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Metadata that no append takes are read as a worker reads them, without headers that are no strings.
func TestOddMetadataAreRead(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 4))
	for odd, want := range map[string]outbox.Metadata{
		`{"headers": {"a": 1, "b": null, "c": {"d": [true]}, "e": "f"}}`: {Headers: map[string]string{"e": "f"}},
		`{"headers": [1], "traceparent": 5, "correlation_id": null}`:     {TraceParent: "5"},
		`{"tracestate": "s", "causation_id": "c", "more": {}}`:           {TraceState: "s", CausationID: "c"},
		`[1]`: {}, `"text"`: {}, `null`: {},
	} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `INSERT INTO events (stream_id, stream_version, event_type, payload, metadata) VALUES ($1, 1, 't', '', $1::text::jsonb)`, odd)
			if err != nil {
				return err
			}
			if events := outboxtest.Read(t, tx, "public"); len(events) != 1 || !reflect.DeepEqual(events[0].Metadata, want) {
				t.Errorf("%s is read as %+v", odd, events)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
