package ledger_test

import (
	"encoding/binary"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/partition"
)

// scenario makes events as a producer would commit them: sequences ascend,
// streams take turns, each stream has one partition.
type scenario struct {
	entries  []ledger.Entry
	messages []ledger.Message
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newScenario(events, streams, partitions int) *scenario {
	s := &scenario{}
	versions := make([]int64, streams)
	for i := range events {
		stream := i % streams
		versions[stream]++
		var id uuid.UUID
		binary.BigEndian.PutUint64(id[8:], uint64(i+1))
		m := ledger.Message{
			EventID: id, Sequence: int64(i + 1), Partition: partition.ID(stream % partitions),
			Stream: "s" + strconv.Itoa(stream), StreamVersion: versions[stream], Type: "t",
			StreamSequence: uint64(i + 1), BodyHash: ledger.HashBody([]byte(strconv.Itoa(i))),
			ReceivedAt: epoch.Add(time.Duration(i) * time.Millisecond),
		}
		s.messages = append(s.messages, m)
		s.entries = append(s.entries, ledger.Entry{
			EventID: id, Stream: m.Stream, Version: m.StreamVersion, Sequence: m.Sequence,
			Partition: m.Partition, BodyHash: m.BodyHash,
		})
	}
	return s
}

// restore numbers the messages by their place in the slice, as the stream
// would if the relay had published them in this order.
func (s *scenario) restore() {
	for i := range s.messages {
		s.messages[i].StreamSequence = uint64(i + 1)
	}
}

func (s *scenario) swap(i, j int) {
	s.messages[i], s.messages[j] = s.messages[j], s.messages[i]
	s.restore()
}

func (s *scenario) copyOf(i int) ledger.Message {
	m := s.messages[i]
	m.StreamSequence = uint64(len(s.messages) + 1)
	m.ReceivedAt = s.messages[len(s.messages)-1].ReceivedAt.Add(time.Millisecond)
	return m
}

func (s *scenario) drop(i int) { s.messages = slices.Delete(s.messages, i, i+1) }

func newChecker(tb testing.TB, config ledger.Config) *ledger.Checker {
	tb.Helper()
	c, err := ledger.NewChecker(config)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func receiveAll(c *ledger.Checker, messages []ledger.Message) {
	for _, m := range messages {
		c.Receive(m)
	}
}

// header is what the relay writes for a message.
func header(m ledger.Message) nats.Header {
	h := nats.Header{}
	h.Set("Outbox-Event-Id", m.EventID.String())
	h.Set("Outbox-Sequence", strconv.FormatInt(m.Sequence, 10))
	h.Set("Outbox-Partition", strconv.Itoa(int(m.Partition)))
	h.Set("Outbox-Stream", m.Stream)
	h.Set("Outbox-Stream-Version", strconv.FormatInt(m.StreamVersion, 10))
	h.Set("Outbox-Type", m.Type)
	if m.Epoch != 0 {
		h.Set("Outbox-Epoch", strconv.FormatInt(m.Epoch, 10))
	}
	if m.Generation != 0 {
		h.Set("Outbox-Generation", strconv.Itoa(int(m.Generation)))
	}
	if m.MessageID != "" {
		h.Set("Nats-Msg-Id", m.MessageID)
	}
	return h
}
