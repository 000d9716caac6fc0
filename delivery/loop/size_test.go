package loop_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/message/codec"
)

// What the broker can never take dies by its size, unread; where a payload may become shorter it is read.
func TestWhatTheBrokerCannotTakeIsNotRead(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		encoding codec.Encoding
		cfg      loop.Config
		state    string
	}{
		"as it is":   {state: "dead"},
		"compressed": {encoding: codec.Zstd, state: "published"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1)
			b.exec(t, `SELECT outbox_append_bytes('s', 'large', decode(repeat('61', 2000000), 'hex'))`)
			b.append(t, "other", `1`)
			b.acquireAll(t, b.keeper)
			b.drain(t, b.full(t, test.encoding, test.cfg))
			if got := b.state(t, 1); got.State != test.state {
				t.Errorf("it is %+v, want %s", got, test.state)
			}
			if got := b.state(t, 2); got.State != "published" {
				t.Errorf("its neighbour is %+v", got)
			}
			var reason string
			if err := b.pool.QueryRow(t.Context(), `SELECT coalesce(last_error, '') FROM outbox_messages WHERE global_sequence = 1`).Scan(&reason); err != nil {
				t.Fatal(err)
			}
			if test.state == "dead" && (!strings.Contains(reason, "2000000 bytes, the server's max_payload is 1048576") || !strings.Contains(reason, "it was not read")) {
				t.Errorf("the reason is %q", reason)
			}
		})
	}
}

// Who publishes past a relay reads no more than the broker takes, either; without a broker, no more than a relay.
func TestAReaderReadsWhatItsBrokerTakes(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.exec(t, `SELECT outbox_append_bytes('s', 'large', decode(repeat('61', 2000000), 'hex'))`)
	b.exec(t, `SELECT outbox_append_bytes('s', 'small', 'a')`)
	if _, err := b.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "REPLAYS", Subjects: []string{"replay.>"}}); err != nil {
		t.Fatal(err)
	}
	shadow, err := natspub.NewShadow(b.nc, natspub.ShadowConfig{Prefix: "replay.1", Stream: "REPLAYS"})
	if err != nil {
		t.Fatal(err)
	}
	rehearsal, err := natspub.NewRehearsal(b.nc, natspub.RehearsalConfig{MaxMessageSize: 1_500_000}, testLogger(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		can  func() delivery.Capabilities
		cfg  loop.Config
		says string
	}{
		"a shadow":          {can: shadow.Capabilities, says: "2000000 bytes, the server's max_payload is 1048576; it was not read"},
		"a rehearsal":       {can: rehearsal.Capabilities, says: "2000000 bytes, the server's max_payload is 1048576; it was not read"},
		"nobody":            {},
		"nobody, but a cap": {cfg: loop.Config{MaxPayload: 1_000_000}, says: "2000000 bytes, the relay reads at most 1000000 (outbox_settings.max_payload_bytes raises it); it was not read"},
	} {
		readings, err := b.readerFor(t, test.cfg, test.can).Read(t.Context(), b.pointersOf(t))
		if err != nil || len(readings) != 2 || readings[1].Err != nil {
			t.Fatalf("%s: %+v, %v", name, readings, err)
		}
		large := readings[0]
		if test.says == "" && (large.Err != nil || len(large.Event.Payload) != 2_000_000) {
			t.Errorf("%s: it is not read: %v", name, large.Err)
		}
		if test.says != "" && (!errors.Is(large.Err, delivery.ErrPayloadTooLarge) || !strings.HasSuffix(large.Err.Error(), test.says) || large.Event.Payload != nil) {
			t.Errorf("%s: %v", name, large.Err)
		}
	}
}

func TestLargestMessageOfAStream(t *testing.T) {
	t.Parallel()
	const file, memory = jetstream.FileStorage, jetstream.MemoryStorage
	for want, s := range map[int]jetstream.StreamConfig{
		0: {Storage: memory, MaxMsgSize: -1}, 50 << 20: {Storage: memory, MaxMsgSize: 50 << 20},
		1 << 20: {Storage: file, MaxMsgSize: 1 << 20}, 32<<20 - 8<<10: {Storage: file, MaxMsgSize: -1},
	} {
		if got := streams.LargestMessage(s); got != want {
			t.Errorf("%+v: %d, want %d", s, got, want)
		}
	}
}
