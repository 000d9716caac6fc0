package natspub_test

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
)

// A consumer continues the producer's trace: what was stored is passed on as it
// is. What no header can hold is left out; the message goes its way all the same.
func TestTheStoredTraceContextIsPassedOn(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	w := b.worker(t, 3, 7, natspub.FencedConfig{})
	w.take(t)
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	cases := []struct{ parent, state, wantParent, wantState string }{
		{parent, "a=b,c=d", parent, "a=b,c=d"},
		{parent, "", parent, ""},
		{"", "a=b", "", ""},
		{"of another kind", "", "of another kind", ""},
		{parent + "\r\nNats-Rollup: all", "a=b", "", ""},
		{parent + "\n", "", "", ""},
		{parent, "a=b\r\nNats-Rollup: all", parent, ""},
		{strings.Repeat("x", 1<<20), "a=b", "", ""},
		{parent, strings.Repeat("x", 70_000), parent, ""},
	}
	var messages []delivery.Message
	for i, c := range cases {
		m := newMessage(int64(i+1), "s", "{}")
		m.Event.TraceParent, m.Event.TraceState = c.parent, c.state
		messages = append(messages, m)
	}
	for i, o := range w.publish(t, messages...) {
		if o.Kind != delivery.Published {
			t.Fatalf("message %d: %+v", i, o)
		}
	}
	for i, stored := range b.received(t, len(cases)) {
		gotParent, gotState := stored.Header.Get("traceparent"), stored.Header.Get("tracestate")
		if gotParent != cases[i].wantParent || gotState != cases[i].wantState || stored.Header.Get("Nats-Rollup") != "" {
			t.Errorf("message %d carries traceparent %q and tracestate %q", i, gotParent, gotState)
		}
	}
}
