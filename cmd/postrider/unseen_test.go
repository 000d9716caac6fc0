package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/internal/testkit/natstest"
)

// What clients take for answers of the server is received all the same, and no consumer stays behind. A durable consumer names it.
func TestTailReceivesWhatClientsKeep(t *testing.T) {
	t.Parallel()
	broker := natstest.Start(t, 1)
	stream := broker.Stream(t, 1)
	js := broker.JetStream(t)
	statuses := []string{"", "409", "100", "", "404", "408", "503", "400", "777", ""}
	for _, status := range statuses {
		msg := &nats.Msg{Subject: "events.a.b", Header: nats.Header{"X": {"y"}}}
		if status != "" {
			msg.Header = nats.Header{"Status": {status}, "Description": {"Consumer Deleted"}}
		}
		if _, err := js.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	all := []string{"tail", "--nats-url=" + broker.URL(), "--all", "--count"}
	code, _, stderr := call(t, append(slices.Clone(all), "--limit=10")...)
	if code != exitOK || !strings.Contains(stderr, "10 messages without outbox headers") {
		t.Errorf("status %d: %s", code, stderr)
	}
	info, err := stream.Info(t.Context())
	if err != nil || info.State.Consumers != 0 {
		t.Errorf("%d consumers are left, %v", info.State.Consumers, err)
	}
	code, _, stderr = call(t, append(slices.Clone(all), "--limit=11", "--idle-exit=8s")...)
	if code != exitOK || !strings.Contains(stderr, "ended after 10 of --limit 11 messages") {
		t.Errorf("status %d: %s", code, stderr)
	}
	code, _, stderr = call(t, append(slices.Clone(all), "--durable=d", "--limit=10")...)
	if code != exitFailed || !strings.Contains(stderr, "message 2 of stream EVENTS has a header Status") {
		t.Errorf("status %d: %s", code, stderr)
	}
}
