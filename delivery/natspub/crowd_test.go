package natspub_test

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/internal/localnats"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/lease/leasetest"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/partition"
)

// occupied has the stream take no more batches until free is called; refused tells how often it has said so since.
func (b bundle) occupied(t *testing.T, batches int) (refused func() int, free func()) {
	t.Helper()
	var n atomic.Int64
	if _, err := b.nc.Subscribe("_INBOX.>", func(m *nats.Msg) {
		if bytes.Contains(m.Data, []byte(`"err_code":10210`)) {
			n.Add(1)
		}
	}); err != nil {
		t.Fatal(err)
	}
	open := func(sequence string) {
		for i := range batches {
			msg := nats.NewMsg("events.other.open")
			msg.Header.Set("Nats-Batch-Id", fmt.Sprint("open", i))
			msg.Header.Set("Nats-Batch-Sequence", sequence)
			if answer, err := b.nc.RequestMsg(msg, 5*time.Second); err != nil || sequence == "1" && len(answer.Data) > 0 {
				t.Fatalf("batch %d is not open: %v", i, err)
			}
		}
	}
	open("1")
	return func() int { return int(n.Load()) }, func() { open("9") } // which tears them
}

// While the stream takes no more batches a message waits, and nothing else: it is not accused.
func TestAMessageWaitsForRoomInTheStream(t *testing.T) {
	t.Parallel()
	onEachTopology(t, func(t *testing.T, b bundle) {
		t.Helper()
		refused, free := b.occupied(t, 50) // the server's own limit
		w := &worker{Fenced: b.fenced(t, connect(t, b.server), natspub.FencedConfig{}), lease: leasetest.Held(3, 7)}
		w.take(t)
		done := make(chan []delivery.Outcome)
		go func() { done <- w.publish(t, newMessage(1, "s", "x")) }()
		pace := time.NewTicker(5 * time.Millisecond)
		defer pace.Stop()
		for refused() < 6 {
			select {
			case o := <-done:
				t.Fatalf("it did not wait: %+v", o)
			case <-pace.C:
			}
		}
		free()
		if o := <-done; o[0].Kind != delivery.Published {
			t.Errorf("once there is room: %+v", o)
		}
	})
}

// Where far more workers publish at once than the stream takes batches, all they publish is stored once, in order, and no message is
// accused of it.
func TestMoreWorkersThanTheStreamTakesBatches(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprintf("R%d", nodes), func(t *testing.T) {
			t.Parallel()
			const workers, rounds, size = 16, 20, 25
			server := natstest.StartWith(t, localnats.Config{Nodes: nodes, MaxBatches: 2})
			b := bundle{server: server, nc: connect(t, server), stream: server.Stream(t, nodes)}
			var all sync.WaitGroup
			patient := natspub.FencedConfig{AckTimeout: time.Minute} // on a busy machine the others take long
			for n := range partition.ID(workers) {
				w := &worker{Fenced: b.fenced(t, connect(t, server), patient), lease: leasetest.Held(n, 7)}
				w.take(t)
				all.Go(func() {
					for round := range rounds {
						var messages []delivery.Message
						for i := range size {
							messages = append(messages, newMessage(int64(round*size+i+1), fmt.Sprint(n), "x"))
						}
						for _, o := range w.publish(t, messages...) {
							if o.Kind != delivery.Published {
								t.Errorf("worker %d: %+v", n, o)
								return
							}
						}
					}
				})
			}
			all.Wait()
			stored := map[string][]int{}
			for _, m := range b.messages(t) {
				if s := m.Header.Get(message.HeaderStream); s != "" {
					at, err := strconv.Atoi(m.Header.Get(message.HeaderSequence))
					if err != nil {
						t.Fatal(err)
					}
					stored[s] = append(stored[s], at)
				}
			}
			for n := range workers {
				got := stored[fmt.Sprint(n)]
				if len(got) != rounds*size || !slices.IsSorted(got) || len(slices.Compact(got)) != rounds*size {
					t.Errorf("of worker %d %d messages are stored, want %d, each once and in order", n, len(got), rounds*size)
				}
			}
		})
	}
}
