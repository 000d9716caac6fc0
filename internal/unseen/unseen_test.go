package unseen_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/unseen"
)

// TestOnlyWhatClientsKeepIsTold asks behind each message of a stream.
func TestOnlyWhatClientsKeepIsTold(t *testing.T) {
	t.Parallel()
	broker := natstest.Start(t, 1)
	broker.Stream(t, 1)
	js := broker.JetStream(t)
	for i, one := range []struct {
		status, body string
		kept         bool
	}{{"409", "", true}, {"409", "body", false}, {"", "", false}, {"100", "", true}, {"404", "", true}} {
		msg := &nats.Msg{Subject: "events.a.b", Header: nats.Header{"X": {"y"}}, Data: []byte(one.body)}
		if one.status != "" {
			msg.Header.Set("Status", one.status)
		}
		if _, err := js.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
		found, err := unseen.Next(t.Context(), js, "EVENTS", "events.>", uint64(i))
		if err != nil || (found != nil) != one.kept || found != nil && (found.Place().Sequence.Stream != uint64(i+1) || found.Subject() != "events.a.b") {
			t.Errorf("%+v: %+v, %v", one, found, err)
		}
	}
	if found, err := unseen.Next(t.Context(), js, "EVENTS", "events.>", 5); found != nil || err != nil {
		t.Errorf("behind the end: %+v, %v", found, err)
	}
}
