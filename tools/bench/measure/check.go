package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/partition"
)

// quiet bounds the silence while the stream is read back.
const quiet = 20 * time.Second

// readBack reads all events of a stream.
func (b *Bench) readBack(ctx context.Context, n *broker) ([]ledger.Message, error) {
	if b.tamper != nil {
		if err := b.tamper(ctx, n.stream); err != nil {
			return nil, err
		}
	}
	return n.readBack(ctx, 1)
}

// readBack reads the events of a stream, in order, from a sequence to its present end.
func (n *broker) readBack(ctx context.Context, from uint64) ([]ledger.Message, error) {
	end, err := n.stream.GetLastMsgForSubject(ctx, eventsFilter)
	if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && end.Sequence < from {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the end of the stream: %w", err)
	}
	consumer, err := n.stream.OrderedConsumer(ctx, eventsFrom(from))
	if err != nil {
		return nil, fmt.Errorf("read the stream back: %w", err)
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(5000))
	if err != nil {
		return nil, fmt.Errorf("read the stream back: %w", err)
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	var read []ledger.Message
	for {
		msg, err := messages.Next(jetstream.NextMaxWait(quiet))
		if err != nil {
			return nil, fmt.Errorf("read the stream back: after %d events: %w", len(read), errors.Join(err, context.Cause(ctx)))
		}
		m, err := ledger.ReadMessage(msg)
		if err != nil {
			return nil, err
		}
		read = append(read, m)
		if m.StreamSequence >= end.Sequence {
			return read, nil
		}
	}
}

// eventsFrom configures a consumer of the events from a sequence on. A consumer of new messages would, if made anew
// before its first message, skip those that came meanwhile.
func eventsFrom(sequence uint64) jetstream.OrderedConsumerConfig {
	return jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{eventsFilter}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: sequence,
	}
}

// check judges the stream of a seeded database with so many events. After a partial drain each partition must be
// complete up to its last event.
func (d *database) check(read []ledger.Message, order ledger.Ordering, events int, partial bool) error {
	book := ledger.New()
	upTo := make([]int64, d.partitions)
	for _, m := range read {
		if m.Partition >= 0 && int(m.Partition) < d.partitions {
			upTo[m.Partition] = max(upTo[m.Partition], m.Sequence)
		}
	}
	const chunk = 10_000
	entries := make([]ledger.Entry, 0, chunk)
	now := time.Now()
	for i := range events {
		if partial && int64(i+1) > upTo[partition.Of(d.data.stream(i), partition.Count(d.partitions))] {
			continue
		}
		if entries = append(entries, d.data.entry(i, partition.Count(d.partitions), !d.json)); len(entries) == chunk {
			book.Committed(entries, now)
			entries = entries[:0]
		}
	}
	book.Committed(entries, now)
	book.Finish()
	return judge(ledger.Config{Ledger: book, Ordering: order, ContiguousVersions: !partial}, read)
}

// judge compares the messages read back with a finished ledger.
func judge(cfg ledger.Config, read []ledger.Message) error {
	checker, err := ledger.NewChecker(cfg)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, m := range read {
		m.ReceivedAt = now
		checker.Receive(m)
	}
	return verdict(checker.Report())
}

// verdict returns nil for a report without faults.
func verdict(r ledger.Report) error {
	if r.OK() && r.Duplicates == 0 && r.Committed == r.Received {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrUnproved, r)
}
