package natspub_test

import (
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/ops/gaps"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

// A scan tells of what clients take for answers of the server, and ends.
func TestAScanSeesWhatClientsKeep(t *testing.T) {
	t.Parallel()
	broker := natstest.Start(t, 1)
	broker.Stream(t, 1)
	js := broker.JetStream(t)
	for _, status := range []string{"", "409", "404", "", "503"} {
		msg := &nats.Msg{Subject: "events.a.b", Header: nats.Header{"X": {"y"}}}
		if status != "" {
			msg.Header = nats.Header{"Status": {status}, "Description": {"Consumer Deleted"}}
		}
		if _, err := js.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	subject, err := natspub.ParseSubject(natspub.DefaultSubject)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := natspub.NewStreamReader(js.Conn(), "", natspub.DefaultStream, subject)
	if err != nil {
		t.Fatal(err)
	}
	var seen []uint64
	if err := reader.Scan(t.Context(), 1, 5, func(page []gaps.StoredMessage) error {
		for _, m := range page {
			seen = append(seen, m.Position)
		}
		return nil
	}); err != nil || !slices.Equal(seen, []uint64{1, 2, 3, 4, 5}) {
		t.Errorf("a scan saw %v: %v", seen, err)
	}
}
