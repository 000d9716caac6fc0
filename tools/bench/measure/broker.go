package measure

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
)

// brokerShape is the kind of a case's broker.
type brokerShape struct {
	replicas int
	sync     bool // sync_interval: always
	oneByOne bool // its stream takes no batches
}

func (s brokerShape) String() string {
	name := "one server"
	if s.replicas > 1 {
		name = fmt.Sprintf("%d replicas", s.replicas)
	}
	if s.sync {
		name += ", sync always"
	}
	return name
}

// broker is a new NATS with an empty stream, in a process of its own.
type broker struct {
	*child
	url    string
	nc     *nats.Conn
	stream jetstream.Stream
}

// streamName and the subjects of events.
const (
	streamName   = streams.DefaultStream
	eventsFilter = "events.>"
	fenceFilter  = streams.DefaultControlPrefix + ".>"
)

func (b *Bench) broker(ctx context.Context, s brokerShape) (_ *broker, err error) {
	c, err := b.part(partNATS, natsSettings{Nodes: s.replicas, SyncAlways: s.sync})
	if err != nil {
		return nil, err
	}
	n := &broker{child: c}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	var answer natsAnswer
	if err := c.receive(ctx, &answer); err != nil {
		return nil, err
	}
	n.url = answer.URL
	if n.nc, err = wire.Connect(n.url, "postrider bench", b.cfg.Logger); err != nil {
		return nil, err
	}
	subject, err := wire.ParseSubject(wire.DefaultSubject)
	if err != nil {
		return nil, err
	}
	info, err := streams.EnsureStream(ctx, n.nc, streams.StreamConfig{
		Name: streamName, Subject: subject, Create: true, Replicas: s.replicas, Logger: b.cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(n.nc)
	if err != nil {
		return nil, fmt.Errorf("JetStream client: %w", err)
	}
	info.Config.AllowAtomicPublish = !s.oneByOne
	if n.stream, err = js.UpdateStream(ctx, info.Config); err != nil {
		return nil, fmt.Errorf("settings of the stream: %w", err)
	}
	return n, nil
}

func (n *broker) close() error {
	if n.nc != nil {
		n.nc.Close()
	}
	return n.stop()
}

// stored returns the number of messages in the stream, records included.
func (n *broker) stored(ctx context.Context) (int, error) {
	state, err := n.state(ctx)
	return int(state.Msgs), err // far below
}

// next returns the sequence of the next message.
func (n *broker) next(ctx context.Context) (uint64, error) {
	state, err := n.state(ctx)
	return state.LastSeq + 1, err
}

// events returns the number of event messages in the stream.
func (n *broker) events(ctx context.Context) (int, error) {
	state, err := n.state(ctx, jetstream.WithSubjectFilter(fenceFilter))
	count := int(state.Msgs) // far below
	for _, fences := range state.Subjects {
		count -= int(fences) // far below
	}
	return count, err
}

func (n *broker) state(ctx context.Context, opts ...jetstream.StreamInfoOpt) (jetstream.StreamState, error) {
	info, err := n.stream.Info(ctx, opts...)
	if err != nil {
		return jetstream.StreamState{}, fmt.Errorf("look at the stream: %w", err)
	}
	return info.State, nil
}
