package streams_test

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
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
	subject, err := wire.ParseSubject(wire.DefaultSubject)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := streams.NewStreamReader(js.Conn(), "", streams.DefaultStream, subject)
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

// A scan passes a message whose headers no client can read, wherever it begins.
func TestAScanPassesHeadersThatNobodyReads(t *testing.T) {
	t.Parallel()
	broker := natstest.Start(t, 1)
	broker.Stream(t, 1)
	js := broker.JetStream(t)
	publishRaw(t, broker.URL(), "events.a.b", "NATS/1.0\r\nno header\r\n\r\n")
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "events.a.b", Header: nats.Header{"Status": {"409"}}}); err != nil {
		t.Fatal(err)
	}
	publishRaw(t, broker.URL(), "events.a.b", "NATS/1.0\r\nno header\r\n\r\n")
	subject, err := wire.ParseSubject(wire.DefaultSubject)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := streams.NewStreamReader(js.Conn(), "", streams.DefaultStream, subject)
	if err != nil {
		t.Fatal(err)
	}
	if extent, err := reader.Extent(t.Context()); err != nil || extent.Front != 1 {
		t.Errorf("%+v, %v", extent, err)
	}
	seen := 0
	if err := reader.Scan(t.Context(), 1, 3, func(page []gaps.StoredMessage) error {
		seen += len(page)
		return nil
	}); err != nil || seen != 3 {
		t.Errorf("a scan saw %d: %v", seen, err)
	}
}

// publishRaw publishes headers as they are, which no client of ours would write.
func publishRaw(t *testing.T, url, subject, headers string) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "CONNECT {\"verbose\":false,\"headers\":true}\r\nHPUB %s %d %d\r\n%s\r\nPING\r\n", subject, len(headers), len(headers), headers)
	for lines := bufio.NewScanner(conn); lines.Scan() && lines.Text() != "PONG"; {
		if strings.HasPrefix(lines.Text(), "-ERR") {
			t.Fatal(lines.Text())
		}
	}
}
