package unseen_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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

// Whoever reads may answer such a message as any other.
func TestAMessageTakesEveryAnswer(t *testing.T) {
	t.Parallel()
	var msg jetstream.Msg = &unseen.Message{}
	for name, err := range map[string]error{
		"Ack": msg.Ack(), "DoubleAck": msg.DoubleAck(t.Context()), "Nak": msg.Nak(), "NakWithDelay": msg.NakWithDelay(0), "InProgress": msg.InProgress(),
		"Term": msg.Term(), "TermWithReason": msg.TermWithReason("no"),
	} {
		if err != nil {
			t.Errorf("%s gives %v", name, err)
		}
	}
	if msg.Reply() != "" || msg.Data() != nil {
		t.Error("it has a reply or a payload")
	}
}
