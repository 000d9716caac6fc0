package ledger_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/message/codec"
)

func TestParseMessage(t *testing.T) {
	t.Parallel()
	want := ledger.Message{
		EventID: uuid.New(), Sequence: 1 << 40, Partition: 255, Stream: "konto/α 7", StreamVersion: 12,
		Type: "opened", Epoch: 3, Generation: 2, StreamSequence: 99, BodyHash: ledger.HashBody([]byte("{}")),
	}
	want.MessageID = want.EventID.String() + ":2"
	got, err := ledger.ParseMessage("events.a.b", header(want), []byte("{}"), 99)
	if err != nil || got != want {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	want.Epoch, want.Generation, want.MessageID = 0, 0, ""
	got, err = ledger.ParseMessage("events.a.b", header(want), []byte("{}"), 99)
	if err != nil || got != want {
		t.Errorf("without optional headers: got %+v, %v", got, err)
	}
}

// The relay's compression is taken off, that of a producer is not known here.
func TestParseMessageReadsCompressedBodies(t *testing.T) {
	t.Parallel()
	body := []byte(strings.Repeat(`{"a":1}`, 100))
	c, err := codec.NewCompressor(codec.S2, 0)
	if err != nil {
		t.Fatal(err)
	}
	out, _ := c.Compress(body)
	h := header(newScenario(1, 1, 1).messages[0])
	for _, test := range []struct {
		encoding string
		body     []byte
		hash     uint64
		err      error
	}{
		{"s2", out, ledger.HashBody(body), nil},
		{"", out, ledger.HashBody(out), nil},
		{"br", out, ledger.HashBody(out), nil},
		{"zstd", out, 0, ledger.ErrBody},
		{"s2", out[:10], 0, ledger.ErrBody},
	} {
		h.Set(codec.Header, test.encoding)
		if test.encoding == "" {
			h.Del(codec.Header)
		}
		if m, err := ledger.ParseMessage("events.a.b", h, test.body, 1); m.BodyHash != test.hash || !errors.Is(err, test.err) {
			t.Errorf("%q: hash %x, %v; want %x, %v", test.encoding, m.BodyHash, err, test.hash, test.err)
		}
	}
}

func TestParseMessageNamesTheHeader(t *testing.T) {
	t.Parallel()
	good := header(newScenario(1, 1, 1).messages[0])
	for _, test := range []struct{ header, value string }{
		{"Outbox-Event-Id", ""},
		{"Outbox-Event-Id", "not-a-uuid"},
		{"Outbox-Sequence", ""},
		{"Outbox-Sequence", "0"},
		{"Outbox-Sequence", "9223372036854775808"},
		{"Outbox-Partition", ""},
		{"Outbox-Partition", "-1"},
		{"Outbox-Partition", "32768"},
		{"Outbox-Stream", ""},
		{"Outbox-Stream-Version", ""},
		{"Outbox-Stream-Version", "1.5"},
		{"Outbox-Type", ""},
		{"Outbox-Epoch", "-1"},
		{"Outbox-Generation", "4294967296"},
	} {
		bad := nats.Header{}
		for name, values := range good {
			bad[name] = values
		}
		bad.Set(test.header, test.value)
		if test.value == "" {
			bad.Del(test.header)
		}
		_, err := ledger.ParseMessage("events.a.b", bad, nil, 1)
		if !errors.Is(err, ledger.ErrHeader) || !strings.Contains(err.Error(), test.header) {
			t.Errorf("%s = %q: got %v", test.header, test.value, err)
		}
	}
}

func FuzzParseMessage(f *testing.F) {
	f.Add("0193b6c5-0000-7000-8000-000000000000", "7", "3", "s", "1", "t", "2", "1")
	f.Fuzz(func(t *testing.T, id, sequence, part, stream, version, kind, epoch, generation string) {
		h := nats.Header{
			"Outbox-Event-Id": {id}, "Outbox-Sequence": {sequence}, "Outbox-Partition": {part},
			"Outbox-Stream": {stream}, "Outbox-Stream-Version": {version}, "Outbox-Type": {kind},
			"Outbox-Epoch": {epoch}, "Outbox-Generation": {generation},
		}
		m, err := ledger.ParseMessage("events.a.b", h, nil, 1)
		if err != nil {
			if !errors.Is(err, ledger.ErrHeader) {
				t.Fatal(err)
			}
			return
		}
		if m.Sequence < 1 || m.StreamVersion < 1 || m.Partition < 0 || m.Stream == "" || m.Generation < 0 || m.Epoch < 0 {
			t.Fatalf("out of range: %+v", m)
		}
		c, err := ledger.NewChecker(ledger.Config{})
		if err != nil {
			t.Fatal(err)
		}
		c.Receive(m)
	})
}
