package natspub_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/streams"
)

// A worker that began on a stream with max_age publishes to one that was made anew without: that takes no message with a TTL.
func TestAStreamMadeAnewWithoutTTLs(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, func(c *jetstream.StreamConfig) { c.MaxAge, c.AllowMsgTTL = c.Duplicates, true })
	w := b.worker(t, 0, 1, natspub.FencedConfig{})
	w.take(t)
	if o := w.publish(t, newMessage(1, "s", "x")); o[0].Kind != delivery.Published {
		t.Fatalf("outcome %+v", o[0])
	}
	js, err := streams.JetStream(b.nc, "")
	if err != nil {
		t.Fatal(err)
	}
	config := b.stream.CachedInfo().Config
	if err := js.DeleteStream(t.Context(), config.Name); err != nil {
		t.Fatal(err)
	}
	config.MaxAge, config.AllowMsgTTL = 0, false
	if _, err := js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if now, err := w.Extent(t.Context()); err != nil || now.Unfit != nil {
		t.Fatalf("the stream does not fit: %v, %v", now.Unfit, err)
	}
	w.take(t)
	if o := w.publish(t, newMessage(2, "s", "x")); o[0].Kind != delivery.Published {
		t.Errorf("outcome %+v", o[0])
	}
}
