package main

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/message"
)

// oddHeaders gives each header of a message values that nobody expects.
func oddHeaders() (list []nats.Header) {
	for _, rule := range message.Headers() {
		if strings.HasPrefix(rule.Name, "Nats-") {
			continue
		}
		for _, value := range []string{
			"", " ", "\x00", "\x1b[2J", "\xff\xfe", "\u202e", "-1", "0", "9223372036854775807", "9223372036854775808", "32768", "2147483648",
			uuid.Nil.String(), "0000-01-01T00:00:00+23:59", "zstd", "s2", "gzip, gzip", strings.Repeat("x", 3000),
		} {
			h := nats.Header{
				message.HeaderEventID: {uuid.NewString()}, message.HeaderStream: {fmt.Sprint("odd-", len(list))}, message.HeaderType: {"tested"},
				message.HeaderStreamVersion: {"1"}, message.HeaderSequence: {fmt.Sprint(len(list) + 100)}, message.HeaderPartition: {"0"},
			}
			h[rule.Name] = []string{value}
			list = append(list, h)
		}
	}
	return list
}

// Whatever headers the messages of a stream have, tail and gaps show each of them, and nothing steers the terminal.
func TestOddMessagesAreShown(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 1})
	c.Start(t, 1)
	appendEvent(t, c, "before", 1)
	c.WaitDrained(t)
	nc, err := nats.Connect(c.NATS.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	odd := oddHeaders()
	for _, h := range odd {
		if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "events.odd\u202e.tested", Header: h, Data: []byte("\x1b[2J{")}); err != nil {
			t.Fatal(err)
		}
	}
	appendEvent(t, c, "behind", 1)
	c.WaitDrained(t)
	all := len(odd) + 2
	for _, show := range []struct {
		args []string
		mark string // of a line that shows a message
	}{
		{[]string{"tail", "--all", "--payload"}, ` "\u001b[2J{"`},
		{[]string{"tail", "--all", "--payload", "--json"}, `"payload":"\u001b[2J{"}`},
		{[]string{"gaps", "detect"}, "\nunknown-event  "},
	} {
		args := append(show.args, "--nats-url="+c.NATS.URL())
		if show.args[0] == "tail" {
			args = append(args, fmt.Sprint("--limit=", all))
		} else {
			args = append(args, "--database-url="+c.DatabaseURL)
		}
		code, stdout, stderr := call(t, args...)
		if code != exitFailed {
			t.Errorf("%q: status %d, want %d: %s", args, code, exitFailed, stderr)
		}
		if i := strings.IndexFunc(stdout+stderr, func(r rune) bool { return r == '\u202e' || unicode.IsControl(r) && r != '\n' }); i >= 0 {
			t.Errorf("%q prints %.20q", args, (stdout + stderr)[i:])
		}
		if shown := strings.Count(stdout, show.mark) + strings.Count(stderr, `(subject "events.odd\u202e.tested", stream sequence `); shown != len(odd) {
			t.Errorf("%q shows %d messages, want %d:\n%s%s", args, shown, len(odd), stdout, stderr)
		}
	}
	code, stdout, stderr := call(t, "gaps", "detect", "--json", "--nats-url="+c.NATS.URL(), "--database-url="+c.DatabaseURL)
	if report := read[map[string]any](t, stdout); code != exitFailed || report["total"] != float64(len(odd)) {
		t.Errorf("status %d, %v: %s", code, report["total"], stderr)
	}
}
