package inbox_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/message"
)

// A reader begins behind a message that the client hides, also where it asks a replica for what lies there.
func TestAReaderBeginsBehindWhatTheClientHides(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"409", "404", "503"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			r := newReading(t)
			r.configure(t, func(c *jetstream.StreamConfig) { c.AllowDirect = true })
			r.publish(t, event("s", 1))
			r.publishHidden(t, event("s", 2), status)
			r.readTwice(t, event("s", 3), 2)
		})
	}
}

// A reader begins before and behind a message whose headers no client can read.
func TestAReaderBeginsAroundHeadersThatNobodyReads(t *testing.T) {
	t.Parallel()
	for _, direct := range []bool{false, true} {
		t.Run(fmt.Sprint(direct), func(t *testing.T) {
			t.Parallel()
			r := newReading(t)
			r.configure(t, func(c *jetstream.StreamConfig) { c.AllowDirect = direct })
			r.publishRaw(t, "events.s", "NATS/1.0\r\nno header\r\n\r\n", "")
			r.publish(t, event("s", 1))
			r.publishRaw(t, "events.s", "NATS/1.0\r\nno header\r\n\r\n", "")
			r.readTwice(t, event("s", 2), 1)
		})
	}
}

// readTwice has a reader read all that is there, and another one what comes then.
func (r *reading) readTwice(t *testing.T, next message.Message, before int) {
	t.Helper()
	last := lastOf(t, r)
	for range 2 {
		func() {
			end := r.run(t, quick(), apply)
			defer end()
			waitFor(t, r.pool, `SELECT count(*) = $1 FROM effects`, before)
			waitFor(t, r.pool, `SELECT min(position) = $1 FROM inbox_lanes`, last)
		}()
		r.publish(t, next)
		before, last, next = before+1, last+1, event(next.Stream, next.Version+1)
	}
}

func lastOf(t *testing.T, r *reading) uint64 {
	t.Helper()
	stream, err := r.js.Stream(t.Context(), "EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.LastSeq
}

func (r *reading) configure(t *testing.T, change func(*jetstream.StreamConfig)) {
	t.Helper()
	stream, err := r.js.Stream(t.Context(), "EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	change(&config)
	if _, err := r.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

// publishRaw publishes headers as they are, which no client of ours would write.
func (r *reading) publishRaw(t *testing.T, subject, headers, body string) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.server.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "CONNECT {\"verbose\":false,\"headers\":true}\r\nHPUB %s %d %d\r\n%s%s\r\nPING\r\n", subject, len(headers), len(headers)+len(body), headers, body)
	for lines := bufio.NewScanner(conn); lines.Scan() && lines.Text() != "PONG"; {
		if strings.HasPrefix(lines.Text(), "-ERR") {
			t.Fatal(lines.Text())
		}
	}
}
