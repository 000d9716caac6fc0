package loop_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/message"
)

// A team may bring its own event store: any relation with the columns' names.
func TestTheEventsMayLieElsewhere(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.exec(t, `CREATE TABLE own (sequence bigint, event_id uuid, stream_id text, stream_version bigint, event_type text,
		payload jsonb, metadata jsonb, tenant_id text, recorded_at timestamptz)`)
	b.exec(t, `INSERT INTO own VALUES (7, '018f0000-0000-7000-8000-000000000007', 's', 3, 'thing done', '{"a": "é"}', NULL, NULL, now())`)
	b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id, topic) VALUES (7, 0, 's', 'a.b > *')`)
	var err error
	if b.store, err = pgstore.New(t.Context(), b.pool, "public", pgstore.Relation{Name: "own"}); err != nil {
		t.Fatal(err)
	}
	b.acquireAll(t, b.keeper)
	b.drain(t, b.relay(t, loop.Config{}))
	messages := b.stored(t)
	if len(messages) != 1 {
		t.Fatalf("%d messages are stored", len(messages))
	}
	if m := messages[0]; string(m.Data) != `{"a": "é"}` || m.Subject != "events.a%2Eb%20%3E%20%2A.thing%20done" ||
		m.Header.Get(message.HeaderStreamVersion) != "3" {
		t.Errorf("stored %s %q %v", m.Subject, m.Data, m.Header)
	}
}

func TestUnfitRelationsAreRefusedByName(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.exec(t, `CREATE VIEW thin AS SELECT sequence, event_id FROM events`)
	for name, says := range map[string]string{"thin": "no column stream_version", "nowhere": "does not exist", "other.events": "does not exist"} {
		relation, err := pgstore.ParseRelation(name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = pgstore.New(t.Context(), b.pool, "public", relation)
		if !errors.Is(err, pgstore.ErrEventsRelation) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", name, err, says)
		}
	}
	for _, name := range []string{"", `a"b`, "a.b.c", "a b", "1a", "a;b"} {
		if _, err := pgstore.ParseRelation(name); !errors.Is(err, pgstore.ErrEventsRelation) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
