package natspub_test

import (
	"maps"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/message"
)

// Of a stream that others use, too, a shadow is told its own messages alone, and in pieces; a few are gone.
func TestAShadowIsToldWhatItStored(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	js := b.server.JetStream(t)
	const last = 6_000
	for at := uint64(1); at <= last; at++ {
		subject, generation := "events.replay.1.s", 200
		switch {
		case at%3 == 0:
			generation = 100
		case at%7 == 0 || at > 5_700 && at < 5_990:
			subject = "events.other.s"
		}
		_, err := js.PublishMsgAsync(&nats.Msg{Subject: subject, Header: nats.Header{
			message.HeaderSequence: {strconv.FormatUint(at, 10)}, message.HeaderGeneration: {strconv.Itoa(generation)},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if at%1_000 == 0 { // below what the client takes for a stall
			<-js.PublishAsyncComplete()
		}
	}
	for _, gone := range []uint64{4, 64, 65} {
		if err := b.stream.DeleteMsg(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
	}
	shadow, err := natspub.NewShadow(b.nc, natspub.ShadowConfig{Prefix: "events.replay.1", Stream: streams.DefaultStream})
	if err != nil {
		t.Fatal(err)
	}
	told, pieces := map[int64]uint64{}, 0
	for after := uint64(10); after != 0 || pieces == 0; pieces++ {
		stored, through, err := shadow.Stored(t.Context(), after, 200)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(told, stored)
		after = through
	}
	if pieces < 2 {
		t.Errorf("all was told at once")
	}
	for at := int64(1); at <= last; at++ {
		own := at > 10 && at != 64 && at != 65 && at%3 != 0 && at%7 != 0 && (at <= 5_700 || at >= 5_990)
		if place, found := told[at]; found != own || own && place != uint64(at) {
			t.Fatalf("of sequence %d it is told %d, %t, want %t", at, place, found, own)
		}
	}
}
