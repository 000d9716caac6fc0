package loop_test

import (
	"testing"

	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/pgstore"
)

// The payload's column may become another type's under a relay: what is sent stays what is stored.
func TestAPayloadsTypeMayChange(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.exec(t, `CREATE TABLE own (sequence bigint, event_id uuid DEFAULT gen_random_uuid(), stream_id text, stream_version bigint, event_type text,
		payload jsonb, metadata jsonb, tenant_id text, recorded_at timestamptz DEFAULT now())`)
	var err error
	if b.store, err = pgstore.New(t.Context(), b.pool, "public", pgstore.Relation{Name: "own"}); err != nil {
		t.Fatal(err)
	}
	b.acquireAll(t, b.keeper)
	relay := b.relay(t, loop.Config{})
	for version, change := range []string{
		`SELECT`,
		`ALTER TABLE own ALTER COLUMN payload TYPE bytea USING convert_to(payload::text, 'UTF8')`,
		`ALTER TABLE own ALTER COLUMN payload TYPE text USING convert_from(payload, 'UTF8')`,
	} {
		b.exec(t, change)
		b.exec(t, `INSERT INTO own (sequence, stream_id, stream_version, event_type, payload) VALUES ($1::int, 's', $1::int, 'done', '{"a": 1}')`, version+1)
		b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id, topic) VALUES ($1::int, 0, 's', 'a')`, version+1)
		b.drain(t, relay)
		messages := b.stored(t)
		if len(messages) != version+1 {
			t.Fatalf("after %s: %d messages are stored", change, len(messages))
		}
		if body := string(messages[version].Data); body != `{"a": 1}` {
			t.Errorf("after %s: the body is %s", change, body)
		}
	}
}
