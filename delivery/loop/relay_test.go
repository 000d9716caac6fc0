package loop_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/message"
)

func TestEverythingIsDeliveredInTheOrderOfItsStream(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	want := map[string][]string{}
	const streams, each = 7, 30
	for i := range each {
		for s := range streams {
			stream := fmt.Sprintf("s-%d", s)
			want[stream] = append(want[stream], fmt.Sprint(b.append(t, stream, fmt.Sprintf(`{"i": %d}`, i))))
		}
	}
	b.acquireAll(t, b.keeper)
	b.drain(t, b.relay(t, loop.Config{BatchSize: 16, Window: 64}))
	messages := b.stored(t)
	if len(messages) != streams*each {
		t.Fatalf("%d messages are stored, want %d", len(messages), streams*each)
	}
	for stream, sequences := range want {
		if got := sequencesOf(messages, stream); !slices.Equal(got, sequences) {
			t.Errorf("stream %s: stored %v, want %v", stream, got, sequences)
		}
	}
	for _, m := range messages {
		if m.Subject != "events.default.thing%2Edone" {
			t.Fatalf("subject %s", m.Subject)
		}
	}
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	b.until(t, `SELECT count(*) FROM outbox_messages WHERE state = 'published' AND stream_sequence > 0`, streams*each)
	b.until(t, `SELECT sum(published) FROM outbox_throughput`, streams*each)
	b.until(t, `SELECT sum(message_count) FROM outbox_deliveries`, streams*each)
	for _, m := range messages { // the history says where each event lies
		var sequence uint64
		err := b.pool.QueryRow(t.Context(), `SELECT stream_sequence FROM outbox_messages WHERE global_sequence = $1::bigint`,
			m.Header.Get(message.HeaderSequence)).Scan(&sequence)
		if err != nil || sequence != m.Sequence {
			t.Fatalf("event %s: history says %d, it lies at %d: %v", m.Header.Get(message.HeaderSequence), sequence, m.Sequence, err)
		}
	}
}
