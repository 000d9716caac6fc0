package loop_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/message"
)

// own has workers read events from a table of that make, whose rows are told one by one.
func (b *bundle) own(t *testing.T, types, rows string) {
	t.Helper()
	b.exec(t, `CREATE TABLE own (sequence bigint, stream_id text, recorded_at timestamptz DEFAULT clock_timestamp(), payload jsonb DEFAULT '{}', `+types+`)`)
	b.exec(t, rows)
	b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id, topic) SELECT sequence, 0, stream_id, 't' FROM own`)
	var err error
	if b.store, err = pgstore.New(t.Context(), b.pool, "public", pgstore.Relation{Name: "own"}); err != nil {
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
	b.start(t, b.relay(t, loop.Config{}))
	b.until(t, `SELECT count(*) FROM outbox WHERE stream_id = 'good'`, 0)
	b.until(t, `SELECT count(*) FROM outbox WHERE NOT parked`, 0)
	for _, m := range b.stored(t) {
		if m.Header.Get(message.HeaderStream) == "good" && m.Header.Get(message.HeaderCorrelationID) != `c\u0000` {
			t.Errorf("stored %v", m.Header)
		}
	}
}

// Consumers can read all that is published of a table of one's own; other rows fail, and say why.
func TestWhatConsumersRefuseIsNotPublished(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.own(t, `event_id uuid DEFAULT gen_random_uuid(), stream_version bigint DEFAULT 1, event_type text DEFAULT 't', metadata jsonb, tenant_id text`,
		`INSERT INTO own (sequence, stream_id) VALUES (1, 'fine'), (2, 'version'), (3, 'type'), (4, 'id');
		 UPDATE own SET stream_version = 0 WHERE sequence = 2; UPDATE own SET event_type = '' WHERE sequence = 3;
		 UPDATE own SET event_id = '00000000-0000-0000-0000-000000000000' WHERE sequence = 4`)
	b.drain(t, b.relay(t, loop.Config{}))
	for _, m := range b.stored(t) {
		read, err := message.Parse(m.Subject, m.Sequence, nats.Header(m.Header), m.Data)
		if err == nil {
			err = read.Check()
		}
		if err != nil {
			t.Errorf("published, and no consumer reads it: %v", err)
		}
	}
	for _, sequence := range []int64{2, 3, 4} {
		if s := b.state(t, sequence); s.State != "failed" || s.LastError == nil {
			t.Errorf("event %d is %+v", sequence, s)
		}
	}
}

// Columns of other types than text are sent as their text, or refused at the start.
func TestColumnsOfOtherTypesAreSentAsTheirText(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.own(t, `event_id uuid DEFAULT gen_random_uuid(), stream_version int DEFAULT 1, event_type int DEFAULT 5, metadata jsonb, tenant_id uuid DEFAULT '018f0000-0000-7000-8000-000000000007'`,
		`INSERT INTO own (sequence, stream_id) VALUES (1, 'a')`)
	subject, err := wire.ParseSubject("events.{tenant}.{type}")
	if err != nil {
		t.Fatal(err)
	}
	publisher := b.publisherOf(t, wire.Shape{Subject: subject})
	relay := b.relayOver(t, publisher, loop.Config{})
	b.drain(t, relay)
	for _, m := range b.stored(t) {
		if m.Subject != "events.018f0000-0000-7000-8000-000000000007.5" || m.Header.Get(message.HeaderType) != "5" {
			t.Errorf("stored %q %q", m.Subject, m.Header.Get(message.HeaderType))
		}
	}
	if n := len(b.stored(t)); n != 1 {
		t.Errorf("%d messages are stored", n)
	}
}
