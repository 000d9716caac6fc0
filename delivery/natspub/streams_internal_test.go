//go:build unix

package natspub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/lease/leasetest"
	"github.com/postrider/postrider/partition"
)

// lane is the publisher that ADR 23 decides against: a partition has a stream of its own, every message expects the one
// before it to be the last there, and none waits for an answer before it is sent.
type lane struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	answers *answers
	writer  *writer
	stream  string
	last    uint64 // of the stream, as far as it was proven
	fence   uint64 // epochs so far
	unclear int    // answers that did not come, or said no
}

const laneTimeout = 2 * time.Second

func newLane(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, a *answers, id partition.ID, replicas int) (*lane, error) {
	subject, err := ParseSubject(fmt.Sprintf("lanes.%d.{topic}.{type}", id))
	if err != nil {
		return nil, err
	}
	build, err := newBuilder(Shape{Subject: subject})
	if err != nil {
		return nil, err
	}
	l := &lane{nc: nc, js: js, answers: a, writer: build.writer(), stream: fmt.Sprintf("LANE-%d", id)}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: l.stream, Subjects: []string{fmt.Sprintf("lanes.%d.>", id)}, Replicas: replicas, Storage: jetstream.FileStorage,
	})
	return l, err
}

// publish stores the messages, each once and in their order, whatever becomes of the answers.
func (l *lane) publish(ctx context.Context, messages []delivery.Message) error {
	for len(messages) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		stored, err := l.send(messages)
		messages = messages[stored:]
		if err == nil {
			continue
		}
		l.unclear++
		late, err := l.prove(ctx)
		if err != nil {
			return err
		}
		messages = messages[late:]
	}
	return nil
}

// send sends everything and returns how many, the first ones, are known to be stored.
func (l *lane) send(messages []delivery.Message) (stored int, err error) {
	given := make(answerChannel, len(messages))
	replies := make([]string, 0, len(messages))
	defer func() {
		for _, reply := range replies {
			l.answers.forget(reply)
		}
	}()
	for i, m := range messages {
		msg := l.writer.message(m, body{data: m.Event.Payload})
		msg.Header[nats.ExpectedLastSeqHdr] = []string{strconv.FormatUint(l.last+uint64(i), 10)}
		msg.Reply = l.answers.expect(i, given)
		replies = append(replies, msg.Reply)
		if err = l.nc.PublishMsg(msg); err != nil {
			break
		}
	}
	timeout := time.NewTimer(laneTimeout)
	defer timeout.Stop()
	for err == nil && stored < len(messages) {
		select {
		case ans := <-given:
			switch {
			case ans.err != nil:
				err = ans.err
			case ans.index != stored || ans.sequence != l.last+1:
				err = errors.New("an answer out of order")
			default:
				stored, l.last = stored+1, ans.sequence
			}
		case <-timeout.C:
			err = nats.ErrTimeout
		}
	}
	return stored, err
}

// prove writes a control message behind the last message of the stream, until one is acknowledged: then nothing that was
// sent before can be stored any more. It returns how many messages had been, behind those that were known.
func (l *lane) prove(ctx context.Context) (late int, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		last, kind, err := l.lastMessage(ctx)
		if err != nil {
			continue
		}
		l.fence++
		msg := nats.NewMsg("lanes." + strings.TrimPrefix(l.stream, "LANE-") + ".control")
		msg.Header.Set(nats.ExpectedLastSeqHdr, strconv.FormatUint(last, 10))
		ask, cancel := context.WithTimeout(ctx, laneTimeout)
		ack, err := l.js.PublishMsg(ask, msg, jetstream.WithRetryAttempts(0))
		cancel()
		if err != nil {
			continue
		}
		from := l.last
		l.last = ack.Sequence
		// Controls of earlier tries lie behind the messages, one behind the other.
		for ; kind == "control"; last-- {
			if _, kind, err = l.message(ctx, last-1); err != nil || last-1 <= from {
				last--
				break
			}
		}
		return int(max(last, from) - from), nil
	}
}

func (l *lane) lastMessage(ctx context.Context) (sequence uint64, kind string, err error) {
	ask, cancel := context.WithTimeout(ctx, laneTimeout)
	defer cancel()
	stream, err := l.js.Stream(ask, l.stream)
	if err != nil {
		return 0, "", err
	}
	info, err := stream.Info(ask)
	if err != nil || info.State.LastSeq == 0 {
		return 0, "", err
	}
	return l.message(ctx, info.State.LastSeq)
}

func (l *lane) message(ctx context.Context, at uint64) (uint64, string, error) {
	if at == 0 {
		return 0, "", nil
	}
	ask, cancel := context.WithTimeout(ctx, laneTimeout)
	defer cancel()
	stream, err := l.js.Stream(ask, l.stream)
	if err != nil {
		return 0, "", err
	}
	msg, err := stream.GetMsg(ask, at)
	if err != nil {
		return 0, "", err
	}
	return at, msg.Subject[strings.LastIndexByte(msg.Subject, '.')+1:], nil
}

func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func workload(id partition.ID, from, n int) []delivery.Message {
	messages := make([]delivery.Message, n)
	for i := range messages {
		messages[i] = delivery.Message{
			Pointer: delivery.Pointer{Partition: id, Sequence: int64(from + i + 1), Stream: "order-7", Topic: "shop"},
			Event: &delivery.Event{
				Sequence: int64(from + i + 1), ID: uuid.New(), StreamVersion: 1, Type: "paid", Payload: []byte(strings.Repeat("x", 500)),
			},
		}
	}
	return messages
}

// BenchmarkLanes compares a stream for each partition with mode fenced as it is: 64 partitions, batches of 250 events of 500
// bytes, the servers' processor time included. The quiet part is what the servers use when nothing is published.
func BenchmarkLanes(b *testing.B) {
	for _, replicas := range []int{1, 3} {
		for _, way := range []string{"fenced", "lanes"} {
			for _, partitions := range []int{64, 256} {
				b.Run(fmt.Sprintf("R%d/%s/%d", replicas, way, partitions), func(b *testing.B) { benchmarkLanes(b, replicas, way, partitions) })
			}
		}
	}
}

// publishing stores messages of one partition.
type publishing func(messages []delivery.Message) error

func fencedPartitions(b *testing.B, nc *nats.Conn, replicas, partitions int) []publishing {
	b.Helper()
	f, err := NewFenced(nc, FencedConfig{Flights: replicas})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	publish := make([]publishing, partitions)
	for i := range publish {
		l := leasetest.Held(partition.ID(i), 1)
		if _, err := f.Take(b.Context(), l); err != nil {
			b.Fatal(err)
		}
		publish[i] = func(messages []delivery.Message) error {
			for len(messages) > 0 {
				outcomes := f.Publish(b.Context(), delivery.Batch{Lease: l, Messages: messages, Order: delivery.OrderPartition})
				for len(outcomes) > 0 && outcomes[0].Kind == delivery.Published {
					outcomes, messages = outcomes[1:], messages[1:]
				}
				if len(outcomes) > 0 && outcomes[0].Err != nil {
					return outcomes[0].Err
				}
			}
			return nil
		}
	}
	return publish
}

func lanes(b *testing.B, nc *nats.Conn, replicas, partitions int) []*lane {
	b.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	a, err := newAnswers(nc)
	if err != nil {
		b.Fatal(err)
	}
	all := make([]*lane, partitions)
	for i := range all {
		if all[i], err = newLane(b.Context(), nc, js, a, partition.ID(i), replicas); err != nil {
			b.Fatal(err)
		}
	}
	return all
}

func benchmarkLanes(b *testing.B, replicas int, way string, partitions int) {
	b.Helper()
	server := natstest.Start(b, replicas)
	nc, err := Connect(server.URL(), "benchmark", slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	var publish []publishing
	if way == "fenced" {
		server.Stream(b, replicas)
		publish = fencedPartitions(b, nc, replicas, partitions)
	} else {
		for _, l := range lanes(b, nc, replicas, partitions) {
			publish = append(publish, func(messages []delivery.Message) error { return l.publish(b.Context(), messages) })
		}
	}
	began := processorTime(b)
	<-time.After(3 * time.Second)
	quiet := processorTime(b) - began
	const size = 250
	sent := 0
	var used time.Duration
	for b.Loop() {
		b.StopTimer()
		work := make([][]delivery.Message, partitions)
		for i := range work {
			work[i] = workload(partition.ID(i), sent, size)
		}
		began := processorTime(b)
		b.StartTimer()
		var all sync.WaitGroup
		for i := range work {
			all.Go(func() {
				if err := publish[i](work[i]); err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
		b.StopTimer()
		used += processorTime(b) - began
		sent += size
		b.StartTimer()
	}
	b.ReportMetric(100*quiet.Seconds()/3, "quiet-%")
	b.ReportMetric(float64(sent*partitions)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(used.Nanoseconds())/float64(sent*partitions), "cpu-ns/event")
}

// BenchmarkLanesWhileLeadersStepDown publishes while leaders of the streams change, and compares what is stored then.
func BenchmarkLanesWhileLeadersStepDown(b *testing.B) {
	const partitions, size = 8, 1000
	server := natstest.Start(b, 3)
	nc, err := Connect(server.URL(), "benchmark", slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	all := lanes(b, nc, 3, partitions)
	sent := 0
	for b.Loop() {
		var under, faults sync.WaitGroup
		over := make(chan struct{})
		faults.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				case <-time.After(50 * time.Millisecond):
					_, _ = nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+all[n%partitions].stream, nil, laneTimeout)
				}
			}
		})
		for i, l := range all {
			under.Go(func() {
				if err := l.publish(b.Context(), workload(partition.ID(i), sent, size)); err != nil {
					b.Error(err)
				}
			})
		}
		under.Wait()
		close(over)
		faults.Wait()
		sent += size
	}
	unclear, controls := 0, uint64(0)
	for _, l := range all {
		unclear, controls = unclear+l.unclear, controls+l.fence
		checkLane(b, l, sent)
	}
	b.ReportMetric(float64(unclear), "unclear")
	b.ReportMetric(float64(controls), "controls")
	b.ReportMetric(float64(sent*partitions), "events")
}

// checkLane compares the stream with what was given to be published.
func checkLane(b *testing.B, l *lane, want int) {
	b.Helper()
	stream, err := l.js.Stream(b.Context(), l.stream)
	if err != nil {
		b.Fatal(err)
	}
	info, err := stream.Info(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	consumer, err := stream.OrderedConsumer(b.Context(), jetstream.OrderedConsumerConfig{})
	if err != nil {
		b.Fatal(err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		b.Fatal(err)
	}
	defer messages.Stop()
	next := 1
	for range info.State.Msgs {
		msg, err := messages.Next()
		if err != nil {
			b.Fatal(err)
		}
		if strings.HasSuffix(msg.Subject(), ".control") {
			continue
		}
		if got := msg.Headers().Get(HeaderSequence); got != strconv.Itoa(next) {
			b.Fatalf("%s: sequence %s follows %d", l.stream, got, next-1)
		}
		next++
	}
	if next-1 != want {
		b.Errorf("%s holds %d of %d events", l.stream, next-1, want)
	}
}
