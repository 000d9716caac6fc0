package measure

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/partition"
)

// Peer is another relay to measure with the same events: module tools/peers has them.
type Peer struct {
	Name string
	// Part is the argument of the hidden command that runs it, by ServePeer.
	Part string
	// Unordered: the peer promises no order, and none is judged.
	Unordered bool
	// Fill makes the peer's tables and puts the events in.
	Fill func(ctx context.Context, database string, events iter.Seq[PeerEvent]) error
}

// PeerEvent is one event to publish. As JSON it has all of its fields.
type PeerEvent struct {
	Sequence  int64        `json:"sequence"`
	ID        uuid.UUID    `json:"id"`
	Stream    string       `json:"stream"`
	Version   int64        `json:"version"`
	Type      string       `json:"type"`
	Partition partition.ID `json:"partition"`
	Payload   string       `json:"payload"`
}

// Message returns the event as the relay publishes it, except for the fence: subject and headers, and a message id.
func (e PeerEvent) Message() (*nats.Msg, error) {
	subject, err := wire.ParseSubject(wire.DefaultSubject)
	if err != nil {
		return nil, err
	}
	return &nats.Msg{
		Subject: subject.Of(delivery.Message{Pointer: delivery.Pointer{Topic: topic}, Event: &delivery.Event{Type: e.Type}}),
		Data:    []byte(e.Payload),
		Header: nats.Header{
			message.HeaderEventID: {e.ID.String()}, message.HeaderSequence: {strconv.FormatInt(e.Sequence, 10)},
			message.HeaderPartition: {strconv.Itoa(int(e.Partition))}, message.HeaderStream: {e.Stream},
			message.HeaderStreamVersion: {strconv.FormatInt(e.Version, 10)}, message.HeaderType: {e.Type}, nats.MsgIdHdr: {e.ID.String()},
		},
	}, nil
}

// PeerSettings are the settings of a peer's process.
type PeerSettings struct {
	Database string `json:"database"`
	NATS     string `json:"nats"`
}

// ServePeer serves in the process of a peer: run connects, calls begin, which waits for the start of the measurement, and works until
// its context ends.
func ServePeer(ctx context.Context, input io.Reader, output io.Writer, run func(ctx context.Context, s PeerSettings, begin func() error) error) error {
	p := &part{input: bufio.NewReader(input), output: json.NewEncoder(output), log: slog.New(slog.DiscardHandler)}
	var s PeerSettings
	if err := p.settings(&s); err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	return run(working, s, func() error {
		if err := p.answer(nullAnswer{Ready: true}); err != nil {
			return err
		}
		if !p.told(ctx) {
			return errNoStart
		}
		go func() {
			p.told(ctx)
			stop()
		}()
		return nil
	})
}

var errNoStart = errors.New("the benchmark ended before it began")

// peerCase is the case of one peer.
type peerCase struct {
	Peer
	shape
}

func (c peerCase) run(ctx context.Context, b *Bench) (_ Sample, err error) {
	d, err := b.peerDatabase(ctx, c)
	if err != nil {
		return Sample{}, err
	}
	defer func() {
		err = errors.Join(err, b.execute(context.WithoutCancel(ctx), `DROP DATABASE `+d.name()+` WITH (FORCE)`))
	}()
	n, err := b.broker(ctx, brokerShape{replicas: 1})
	if err != nil {
		return Sample{}, err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	result, mib, err := c.measure(ctx, b, d, n)
	if err != nil {
		return Sample{}, err
	}
	read, err := b.readBack(ctx, n)
	if err != nil {
		return Sample{}, err
	}
	if c.Unordered {
		slices.SortFunc(read, func(x, y ledger.Message) int { return int(x.Sequence - y.Sequence) })
		for i := range read {
			read[i].StreamSequence = 0 // the places are not in that order
		}
	}
	if err := d.check(read, ledger.ByStream, c.events, false); err != nil {
		return Sample{}, err
	}
	return Sample{Events: len(read), Foreign: result.foreign, Values: map[string]float64{
		ValueRate: float64(result.events) / result.took.Seconds(), ValueRelay: result.perEvent(roleRelay, result.events),
		ValuePostgres: result.perEvent(rolePostgres, result.events), ValueNATS: result.perEvent(roleNATS, result.events), ValueMemory: mib,
	}}, nil
}

// measure runs the peer from its start to the last event. It is stopped before anybody reads the stream.
func (c peerCase) measure(ctx context.Context, b *Bench, d *database, n *broker) (_ drained, mib float64, err error) {
	peer, err := b.part(c.Part, PeerSettings{Database: d.url, NATS: n.url})
	if err != nil {
		return drained{}, 0, err
	}
	defer func() { err = errors.Join(err, peer.stop()) }()
	var ready nullAnswer
	if err := peer.receive(ctx, &ready); err != nil {
		return drained{}, 0, err
	}
	processors := b.roles(n.child, peer)
	before, err := processors.measure()
	if err != nil {
		return drained{}, 0, err
	}
	began := time.Now()
	if err := peer.send("go"); err != nil {
		return drained{}, 0, err
	}
	if err := n.await(ctx, c.events, []*child{peer}); err != nil {
		return drained{}, 0, err
	}
	after, err := processors.measure()
	if err != nil {
		return drained{}, 0, err
	}
	took, err := n.lastStored(ctx, began)
	if err != nil {
		return drained{}, 0, err
	}
	mib, err = peakMemory(peer.pid())
	return drained{after.since(before), c.events, took}, mib, err
}

// peerDatabase copies the peer's filled database, which is made once.
func (b *Bench) peerDatabase(ctx context.Context, c peerCase) (*database, error) {
	data, err := b.dataset(c.payload)
	if err != nil {
		return nil, err
	}
	return b.copied(ctx, "bench_peer_"+c.Part, c.shape, data, func(u string) error {
		b.say("filling %s with %d events", c.Name, c.events)
		if err := c.Fill(ctx, u, data.peerEvents(c.shape)); err != nil {
			return fmt.Errorf("fill %s: %w", c.Name, err)
		}
		return nil
	})
}

// copied returns a copy of a database, which the first call makes and fills.
func (b *Bench) copied(ctx context.Context, filled string, s shape, data *dataset, fill func(database string) error) (*database, error) {
	u, err := url.Parse(b.postgres.URL())
	if err != nil {
		return nil, fmt.Errorf("address of PostgreSQL: %w", err)
	}
	if !b.filled[filled] {
		if err := b.execute(ctx, `CREATE DATABASE `+filled); err != nil {
			return nil, err
		}
		u.Path = "/" + filled
		if err := fill(u.String()); err != nil {
			return nil, err
		}
		b.filled[filled] = true
	}
	b.made++
	name := "bench_" + strconv.Itoa(b.made)
	if err := b.execute(ctx, `CREATE DATABASE `+name+` TEMPLATE `+filled+` STRATEGY file_copy`); err != nil {
		return nil, err
	}
	u.Path = "/" + name
	if err := b.execute(ctx, `CHECKPOINT`); err != nil {
		return nil, err
	}
	return &database{shape: s, url: u.String(), data: data}, nil
}

func (d *dataset) peerEvents(s shape) iter.Seq[PeerEvent] {
	return func(yield func(PeerEvent) bool) {
		for i := range s.events {
			e := d.at(i)
			if !yield(PeerEvent{
				Sequence: int64(i + 1), ID: e.id, Stream: e.stream, Version: e.version, Type: e.kind,
				Partition: partition.Of(e.stream, partition.Count(s.partitions)), Payload: string(e.payload),
			}) {
				return
			}
		}
	}
}

// peerScenario compares the relay and the peers.
func peerScenario(peers []Peer) Scenario {
	return Scenario{"peers", "publish a backlog, with other relays on the same events", ValueRate, "events/s", func(c Config) []Case {
		on := brokerShape{replicas: 1}
		null := nullPipelined
		cases := []Case{
			caseOf(null, "", drain{shape: c.shape(), broker: on}),
			caseOf("postrider, by partition", null, drain{shape: c.shape(), broker: on, relay: &relayShape{order: ledger.ByPartition}}),
		}
		for _, p := range peers {
			cases = append(cases, Case{Name: p.Name, Base: null, run: peerCase{p, c.shape()}.run})
		}
		return cases
	}}
}
