package inbox_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/internal/testkit/faultproxy"
	"github.com/postrider/postrider/message"
)

// Events without payload whose header Status the client takes for an answer of the server have their effect once, in order.
func TestWhatTheClientKeepsHasItsEffect(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	for i, status := range []string{"", "409", "404", "", "503", "100"} {
		r.publishHidden(t, event("s", int64(i+1)), status)
	}
	end := r.run(t, quick(), apply)
	waitFor(t, r.pool, `SELECT count(*) = 6 FROM effects`)
	end()
	if got := r.effects(t, "s"); !slices.Equal(got, []int64{1, 2, 3, 4, 5, 6}) {
		t.Errorf("effects are %v", got)
	}
}

// publishHidden publishes a message without payload; with a status, clients keep it to themselves.
func (r *reading) publishHidden(t *testing.T, m message.Message, status string) {
	t.Helper()
	header := nats.Header{
		message.HeaderEventID: {m.EventID.String()}, message.HeaderStream: {m.Stream}, message.HeaderType: {m.Type}, message.HeaderPartition: {"0"},
		message.HeaderStreamVersion: {strconv.FormatInt(m.Version, 10)}, message.HeaderSequence: {strconv.FormatInt(m.Sequence, 10)},
	}
	if status != "" {
		header["Status"], header["Description"] = []string{status}, []string{"Consumer Deleted"}
	}
	if _, err := r.js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Header: header}); err != nil {
		t.Fatal(err)
	}
}

// A look that is not answered is no look that found nothing: it is told, with the right that may be missing.
func TestAnUnansweredLookIsTold(t *testing.T) {
	t.Parallel()
	told := make(said, 1)
	r := newReading(t, func(c *inbox.Config) { c.Logger = slog.New(slog.NewTextHandler(told, nil)) })
	r.publish(t, event("s", 1))
	link, js := proxied(t, r.server.URL())
	r.js = js
	end := r.run(t, quick(), apply)
	defer end()
	waitFor(t, r.pool, `SELECT count(*) = 1 FROM effects`)
	drop := link.DropMessages(func(m faultproxy.Message) bool { return bytes.Contains(m.Payload, []byte("stream_msg_get_response")) })
	select {
	case <-told:
	case <-time.After(patience):
		t.Error("nobody says that the stream could not be asked")
	}
	drop.Stop()
	r.publish(t, event("s", 2))
	waitFor(t, r.pool, `SELECT count(*) = 2 FROM effects`)
}

// said gets a word for a line of the log that names the request.
type said chan struct{}

func (s said) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("STREAM.MSG.GET")) {
		select {
		case s <- struct{}{}:
		default:
		}
	}
	return len(line), nil
}
