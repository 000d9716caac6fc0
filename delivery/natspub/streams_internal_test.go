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
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/processor"
	"github.com/postrider/postrider/lease/leasetest"
	"github.com/postrider/postrider/partition"
)

// lane is the publisher that ADR 23 decides against: a partition has a stream of its own, every message expects the one
// before it to be the last there, and none waits for an answer before it is sent.
type lane struct {
	nc       *nats.Conn
	api      api
	stream   jetstream.Stream
	answers  *answers
	writer   *writer
	subject  string // of its messages and controls, without the last tokens
	last     uint64 // of the stream, as far as it was proven
	controls int
	unclear  int // answers that did not come, or said no
}

const laneTimeout = 2 * time.Second

func newLane(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, a *answers, id partition.ID, replicas int) (*lane, error) {
	l := &lane{nc: nc, api: api{nc, fmt.Sprintf("LANE-%d", id)}, answers: a, subject: fmt.Sprintf("lanes.%d.", id)}
	subject, err := ParseSubject(l.subject + "{topic}.{type}")
	if err != nil {
		return nil, err
	}
	build, err := newBuilder(Shape{Subject: subject})
	if err != nil {
		return nil, err
	}
	l.writer = build.writer()
	l.stream, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: l.api.stream, Subjects: []string{l.subject + ">"}, Replicas: replicas, Storage: jetstream.FileStorage,
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
	from := l.last
	for n := 1; ; n++ {
		if late, err = l.tryProve(ctx, from); err == nil || !pauseFor(ctx, n) {
			return late, err
		}
	}
}

func (l *lane) tryProve(ctx context.Context, from uint64) (late int, err error) {
	ctx, cancel := context.WithTimeout(ctx, laneTimeout)
	defer cancel()
	_, last, err := l.api.last(ctx, l.subject+">")
	if err != nil {
		return 0, err
	}
	l.controls++
	control := nats.NewMsg(l.subject + "control")
	control.Header.Set(nats.ExpectedLastSeqHdr, strconv.FormatUint(last, 10))
	answered, err := l.nc.RequestMsgWithContext(ctx, control)
	if err != nil {
		return 0, err
	}
	ans := parseAnswer(answered)
	if ans.err != nil {
		return 0, ans.err
	}
	_, event, err := l.api.last(ctx, l.subject+"shop.>") // controls of earlier tries lie behind all events
	if err != nil {
		return 0, err
	}
	l.last = ans.sequence
	return int(max(event, from) - from), nil
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
	began := processor.Time(b)
	<-time.After(3 * time.Second)
	quiet := processor.Time(b) - began
	const size = 250
	sent := 0
	var used time.Duration
	for b.Loop() {
		b.StopTimer()
		work := make([][]delivery.Message, partitions)
		for i := range work {
			work[i] = workload(partition.ID(i), sent, size)
		}
		began := processor.Time(b)
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
		used += processor.Time(b) - began
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
					_, _ = nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+all[n%partitions].api.stream, nil, laneTimeout)
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
	unclear, controls := 0, 0
	for _, l := range all {
		unclear, controls = unclear+l.unclear, controls+l.controls
		checkLane(b, l, sent)
	}
	b.ReportMetric(float64(unclear), "unclear")
	b.ReportMetric(float64(controls), "controls")
	b.ReportMetric(float64(sent*partitions), "events")
}

// checkLane compares the stream with what was given to be published.
func checkLane(b *testing.B, l *lane, want int) {
	b.Helper()
	consumer, err := l.stream.OrderedConsumer(b.Context(), jetstream.OrderedConsumerConfig{FilterSubjects: []string{l.subject + "shop.>"}})
	if err != nil {
		b.Fatal(err)
	}
	info, err := consumer.Info(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		b.Fatal(err)
	}
	defer messages.Stop()
	next := 1
	for range info.NumPending {
		msg, err := messages.Next()
		if err != nil {
			b.Fatal(err)
		}
		if got := msg.Headers().Get(HeaderSequence); got != strconv.Itoa(next) {
			b.Fatalf("%s: sequence %s follows %d", l.stream, got, next-1)
		}
		next++
	}
	if next-1 != want {
		b.Errorf("%s holds %d of %d events", l.api.stream, next-1, want)
	}
}
