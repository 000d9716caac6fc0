package delivery_test

import (
	"testing"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/message"
)

// own has workers read events from a table of that make, whose rows are told one by one.
func (b *bundle) own(t *testing.T, types, rows string) {
	t.Helper()
	b.exec(t, `CREATE TABLE own (sequence bigint, stream_id text, recorded_at timestamptz DEFAULT clock_timestamp(), payload jsonb DEFAULT '{}', `+types+`)`)
	b.exec(t, rows)
	b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id, topic) SELECT sequence, 0, stream_id, 't' FROM own`)
	var err error
	if b.store, err = delivery.NewStore(t.Context(), b.pool, "public", delivery.Relation{Name: "own"}); err != nil {
		t.Fatal(err)
	}
	b.acquireAll(t, b.keeper)
}

// JSON that no text can hold, in a table of one's own, fails no other event.
func TestMetadataThatNoTextHoldsHarmsItsOwnStream(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.own(t, `event_id uuid DEFAULT gen_random_uuid(), stream_version bigint DEFAULT 1, event_type text DEFAULT 't', metadata json, tenant_id text`,
		`INSERT INTO own (sequence, stream_id, metadata) VALUES (1, 'bad', '{"note": "\u0000", "correlation_id": "c"}'), (2, 'good', '{"correlation_id": "c\\u0000"}')`)
	b.start(t, b.relay(t, delivery.Config{}))
	b.until(t, `SELECT count(*) FROM outbox WHERE stream_id = 'good'`, 0)
	b.until(t, `SELECT count(*) FROM outbox WHERE NOT parked`, 0)
	for _, m := range b.stored(t) {
		if m.Header.Get(message.HeaderStream) == "good" && m.Header.Get(message.HeaderCorrelationID) != `c\u0000` {
			t.Errorf("stored %v", m.Header)
		}
	}
}
