package loop_test

import (
	"fmt"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/internal/testkit/slow"
	"github.com/postrider/postrider/message/codec"
)

// The broker's limit applies to what is sent: 16 MiB that shrink below it are published, and 64 in the slow form; 2 MiB of noise are not.
// Their memory is that of a few payloads at a time.
func TestLargePayloadsFitWhenCompressed(t *testing.T) { //nolint:paralleltest // it measures memory
	const count = 3
	for storing, store := range storings { //nolint:paralleltest // see above
		for _, encoding := range []codec.Encoding{codec.Zstd, codec.Gzip} {
			t.Run(fmt.Sprintf("%s %s", storing, encoding), func(t *testing.T) {
				large := int64(16 << 20)
				if storing != "in batches" || encoding != codec.Zstd {
					slow.Test(t)
					large = 64 << 20
				}
				b := setup(t, 2)
				store(b, t)
				for i := range count {
					b.append(t, fmt.Sprintf("s-%d", i), `1`)
				}
				noise := b.append(t, "noise", `1`)
				b.append(t, "small", `1`)
				b.exec(t, `UPDATE events SET payload = convert_to(repeat('ab', $1), 'UTF8') WHERE stream_id LIKE 's-%'`, large/2)
				b.exec(t, `UPDATE events SET payload = (SELECT string_agg(uuid_send(gen_random_uuid()), '') FROM generate_series(1, 131072)) WHERE sequence = $1`, noise)
				b.acquireAll(t, b.keeper)
				peak := watchHeap(t)
				b.drain(t, b.full(t, encoding, loop.Config{MaxPayload: large}))
				t.Logf("peak of the heap with %d payloads of %d MiB: %d MiB", count, large>>20, peak()>>20)
				found := 0
				b.eachEvent(t, func(m jetstream.Msg) {
					if stream := m.Headers().Get("Outbox-Stream"); !strings.HasPrefix(stream, "s-") {
						return
					}
					found++
					body, err := codec.Body(m.Headers(), m.Data(), large)
					if err != nil || int64(len(body)) != large || len(m.Data()) > 1<<20 {
						t.Errorf("%d bytes are stored, which make %d: %v", len(m.Data()), len(body), err)
					}
				})
				if found != count {
					t.Errorf("%d large events are stored, want %d", found, count)
				}
				if s := b.state(t, noise); s.State != "dead" || !strings.Contains(*s.LastError, "max_payload") {
					t.Errorf("the noise: %+v", s)
				}
			})
		}
	}
}

// watchHeap returns a function that stops watching and gives the largest heap seen, in bytes. It is above that of the relay: the
// server runs in the same process.
func watchHeap(t *testing.T) (peak func() uint64) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan uint64, 1)
	go func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		var seen []uint64
		for {
			metrics.Read(sample)
			seen = append(seen, sample[0].Value.Uint64())
			select {
			case <-tick.C:
			case <-stop:
				done <- slices.Max(seen)
				return
			}
		}
	}()
	return func() uint64 { close(stop); return <-done }
}
