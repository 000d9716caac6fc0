package topologies

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

// A stream that sources the events has each order's in order, with the headers of the wire format; what the server kept for batches is gone,
// and positions and times are its own.
func TestASourcedStreamKeepsTheOrderOfStreams(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.stream(t, jetstream.StreamConfig{Name: "ALL", Sources: []*jetstream.StreamSource{{Name: events, FilterSubject: "events.>"}}})
	h.sell(t, 2)
	h.holds(t, "ALL", 2*round)
	origin, sourced := stored(t, h.js, events, "events.>"), stored(t, h.js, "ALL", ">")
	wantOrder(t, versions(parsed(t, sourced)), 2)
	batches := 0
	for i := range origin {
		for name, values := range origin[i].Headers() {
			switch {
			case strings.HasPrefix(name, "Nats-Batch-"), strings.HasPrefix(name, "Nats-Expected-"):
				batches++
				if sourced[i].Headers().Get(name) != "" {
					t.Errorf("%s was sourced", name)
				}
			case sourced[i].Headers().Get(name) != values[0]:
				t.Errorf("%s was %s, and is sourced as %q", name, values[0], sourced[i].Headers().Get(name))
			}
		}
	}
	if batches == 0 {
		t.Error("the workers' stream has no headers of the fence: nothing shows that they are left out")
	}
}

// Broken: what comes by two ways comes twice, in batches and one by one: the fence is of the workers' stream. An inbox applies it once.
func TestTwoWaysAreTwoCopies(t *testing.T) {
	t.Parallel()
	for name, replicas := range map[string]int{"in batches": 1, "one by one": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := houseOf(t, clustertest.Config{NATS: natstest.Start(t, replicas), Replicas: replicas, NoBatches: replicas == 3})
			source := &jetstream.StreamSource{Name: events, FilterSubject: "events.>"}
			h.stream(t, jetstream.StreamConfig{Name: "REGION", Replicas: replicas, Sources: []*jetstream.StreamSource{source}})
			h.stream(t, jetstream.StreamConfig{Name: "ALL", Replicas: replicas, Sources: []*jetstream.StreamSource{source, {Name: "REGION"}}})
			for n := range 2 {
				h.sell(t, 1)
				h.holds(t, "ALL", 2*(n+1)*round)
			}
			if twice := copies(parsed(t, stored(t, h.js, "ALL", ">"))); twice != 2*round {
				t.Errorf("%d events came twice, want %d", twice, 2*round)
			}
			h.consume(t, "ALL", 2*round)
			h.wantEffects(t, 2)
		})
	}
}

// moved makes EVENTS anew under another name: what it holds is sourced there, as the filter says, and the subjects follow.
func (h *house) moved(t *testing.T, filter string, messages int) {
	t.Helper()
	config := jetstream.StreamConfig{
		Name: "EVENTS2", Discard: jetstream.DiscardNew, AllowAtomicPublish: true,
		Sources: []*jetstream.StreamSource{{Name: events, FilterSubject: filter}},
	}
	h.stream(t, config)
	h.holds(t, "EVENTS2", messages)
	config.Sources, config.Subjects = nil, []string{"events.>", "outbox.fence.>"}
	if err := h.js.DeleteStream(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	if _, err := h.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

// A stream gets another name by a copy with its records: workers find there what they know.
func TestAStreamMovesWithItsRecords(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.sell(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	before, err := state(ctx, h.js, events)
	if err != nil {
		t.Fatal(err)
	}
	h.moved(t, "", int(before.Msgs))
	h.sell(t, 1, "--stream=EVENTS2")
	wantOrder(t, versions(parsed(t, stored(t, h.js, "EVENTS2", "events.>"))), 2)
}

// Broken: without them the stream has lost everything, for all that the workers can see, and they publish it again.
func TestAStreamMovedWithoutItsRecordsGetsAllAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.sell(t, 1)
	h.moved(t, "events.>", round)
	h.sell(t, 1, "--stream=EVENTS2")
	if twice := copies(parsed(t, stored(t, h.js, "EVENTS2", "events.>"))); twice != round {
		t.Errorf("%d events are there twice, want %d", twice, round)
	}
}
