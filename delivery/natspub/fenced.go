package natspub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/lease"
)

// Limits of one atomic batch, and of all batches in flight before the stream's limit is known. The server admits 1,000 messages a batch
// and, by default, 50 open batches a stream, abandoned ones included for 10 s.
const (
	MaxBatchEvents    = 990
	MaxBatchBytes     = 4 << 20
	MaxBatchesTotal   = 32
	defaultInFlight   = 8
	takeAttempts      = 8
	incompleteToSplit = 3
)

// FencedConfig configures a Fenced publisher.
type FencedConfig struct {
	// Stream is the JetStream stream that must acknowledge. Defaults to EVENTS.
	Stream string
	// APIPrefix is as in StreamConfig.
	APIPrefix string
	// Shape turns events into messages.
	Shape wire.Shape
	// Control names the control messages' subjects.
	Control streams.Control
	// AckTimeout bounds the wait for the answer to a batch; at least 10 ms. The wait is a second at first, and then follows the answers'
	// times. After it the batch is sent again under the same expectation. Defaults to 5 s.
	AckTimeout time.Duration
	// MaxMessageSize bounds headers and body, in bytes; 0 or below: the stream's limit, as Extent saw it last. The server's max_payload
	// always applies.
	MaxMessageSize int
	// InFlight returns the number of batches that this process begins with in flight, a share of MaxBatchesTotal; then the stream's
	// answers decide. Defaults to 8.
	InFlight func() int
	// Flights is the number of batches in flight at once whatever they hold; meanwhile the next parts gather, and one more batch is sent
	// when it is full. A stream of one server stores batches one after the other, so more than 1, the default, only makes them smaller; a
	// replicated stream takes 3.
	Flights int
	// Found comes from EnsureFenced. It gives the stream's settings until Extent is asked; nil: no batches.
	Found *jetstream.StreamInfo
	// Staging is about the time that a stream of one server takes to stage a batch in files, whatever its size. Messages that take fewer
	// round trips one by one go so. Defaults to 3 ms.
	Staging time.Duration
}

// Fenced publishes messages that the stream takes from the partition's last owner alone. It implements delivery.Publisher.
type Fenced struct {
	cfg     FencedConfig
	build   wire.Builder
	writers *wire.WriterPool
	nc      *nats.Conn
	api     wire.StreamAPI
	answers *wire.Answers
	slots   *slots
	prefix  string // of attempts, unique for this process
	sent    atomic.Uint64
	seen    seen

	combiner *combiner
	walks    walks
	chunk    chunk
}

// session is the state of a partition that was taken.
type session struct {
	last  uint64 // the expectation: the last control message's position
	kept  uint64 // the last watermark's position
	parts []part // its messages
	batch uint64
	lives []delivery.Life

	edge edge
}

// NewFenced returns a publisher on a connection made by Connect. Close ends it.
func NewFenced(nc *nats.Conn, cfg FencedConfig) (*Fenced, error) {
	cfg.Stream = cmp.Or(cfg.Stream, streams.DefaultStream)
	cfg.AckTimeout = cmp.Or(cfg.AckTimeout, wire.DefaultAckTimeout)
	if cfg.AckTimeout < 10*time.Millisecond {
		return nil, fmt.Errorf("%w: AckTimeout must be at least 10ms, got %s", wire.ErrConfig, cfg.AckTimeout)
	}
	cfg.Flights, cfg.Staging = cmp.Or(cfg.Flights, 1), cmp.Or(cfg.Staging, defaultStaging)
	if cfg.InFlight == nil {
		cfg.InFlight = func() int { return defaultInFlight }
	}
	build, err := wire.NewBuilder(cfg.Shape)
	if err != nil {
		return nil, err
	}
	if nc.Opts.ReconnectBufSize >= 0 {
		return nil, fmt.Errorf("%w: the connection must not buffer while it reconnects: ReconnectBufSize(-1)", wire.ErrConfig)
	}
	api := wire.NewStreamAPI(nc, cfg.APIPrefix, cfg.Stream, cfg.AckTimeout)
	f := &Fenced{
		cfg: cfg, build: build, writers: wire.NewWriterPool(build), nc: nc, api: api,
		slots: newSlots(cfg.InFlight), prefix: nuid.Next()[14:],
	}
	if f.answers, err = wire.NewAnswers(api, f.goesByOne); err != nil {
		return nil, err
	}
	f.combiner = &combiner{f: f}
	if cfg.Found != nil {
		f.look(*cfg.Found)
	}
	return f, nil
}

// Close ends the subscription to acknowledgements.
func (f *Fenced) Close() error { return f.answers.Close() }

// attempt returns a name that no other message has.
func (f *Fenced) attempt() string { return f.prefix + strconv.FormatUint(f.sent.Add(1), 36) }

// Ready implements delivery.Publisher.
func (f *Fenced) Ready() <-chan struct{} { return f.combiner.ready() }

// Extent implements delivery.Publisher.
func (f *Fenced) Extent(ctx context.Context) (delivery.Extent, error) {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.AckTimeout)
	defer cancel()
	info, err := f.api.Info(ctx)
	if err != nil {
		return delivery.Extent{}, err
	}
	return f.look(info), nil
}

// look notes the stream's settings, which decide how messages get there.
func (f *Fenced) look(info jetstream.StreamInfo) delivery.Extent {
	singles := int64(0)
	if roundTrip, err := f.nc.RTT(); err == nil && info.Config.Replicas <= 1 {
		singles = int64(f.cfg.Staging/max(roundTrip, 1)) - 1
	}
	f.seen.singles.Store(singles)
	batches, _ := streams.TakesBatches(f.nc, info.Config)
	f.seen.batches.Store(batches)
	return f.seen.of(info, streams.Needs{Subject: f.build.Subject, Control: &f.cfg.Control})
}

// goesByOne looks whether the stream takes no batches now; where nobody can tell, a refusal of them is believed.
func (f *Fenced) goesByOne(ctx context.Context) bool {
	_, err := f.Extent(ctx)
	return err != nil || f.steps()
}

// steps: without batches the next message of a partition is sent when the one before was acknowledged.
func (f *Fenced) steps() bool { return !f.seen.batches.Load() }

// Take implements delivery.Publisher: it reads the partition's last record and writes a copy of it under the lease's epoch, on condition
// that it is still the last. When that write was acknowledged, no batch of an earlier owner, and no earlier batch of this one, can be
// stored any more; reading alone proves nothing.
func (f *Fenced) Take(ctx context.Context, l *lease.Lease, known delivery.Known) (delivery.Standing, error) {
	t := takeover{Fenced: f, lease: l, known: known, subject: f.cfg.Control.Subject(l.Partition), written: map[string]bool{}}
	var err error
	for n := 1; n <= takeAttempts; n++ {
		var done bool
		if done, err = t.once(ctx); done || err != nil && !errors.Is(err, delivery.ErrOutage) {
			break
		}
		if !wire.Pause(ctx, n) {
			return delivery.Standing{}, fmt.Errorf("%w: %w", delivery.ErrOutage, context.Cause(ctx))
		}
	}
	if err != nil {
		return delivery.Standing{}, fmt.Errorf("take partition %d: %w", l.Partition, err)
	}
	s := &session{last: t.fence, kept: t.kept, parts: t.parts, lives: t.lives}
	s.wrote(t.fence)
	if err = t.learn(ctx, s); err != nil {
		return delivery.Standing{}, fmt.Errorf("take partition %d: %w", l.Partition, err)
	}
	return delivery.Standing{Session: s, Kept: t.kept, Lives: s.lives, Fence: s.last, Delivered: delivered(s.parts)}, nil
}

// takeover is one Take under way.
type takeover struct {
	*Fenced
	lease   *lease.Lease
	known   delivery.Known
	subject string
	written map[string]bool // attempts without an answer

	kept  uint64          // position of the last watermark
	parts []part          // its messages
	lives []delivery.Life // of the partition's records
	fence uint64          // position of our own record
}

// learn finds the stored messages of those that the last record names: no more can be stored. One more record closes an announcement, and
// begins a life where the stream lost known messages.
func (t *takeover) learn(ctx context.Context, s *session) (err error) {
	s.parts = nil
	announced := false
	for _, p := range t.parts {
		found := []part{p}
		switch {
		case p.After > 0:
			announced = true
			found, err = t.walk(ctx, t.lease.Partition, p, t.fence)
		case p.Batch:
			found[0], t.kept, err = t.stored(ctx, p)
		}
		if err != nil {
			return err
		}
		s.parts = append(s.parts, found...)
	}
	if announced {
		for _, d := range delivered(s.parts) {
			t.kept = max(t.kept, d.StreamSequence)
		}
	}
	last := t.lives[len(t.lives)-1].ID
	lost := t.kept < t.known.Fence && (t.known.Life == "" || t.known.Life == last) ||
		t.known.Life != last && delivery.LifeNumber(t.known.Life) >= delivery.LifeNumber(last) // an older copy of the stream
	if s.kept = t.kept; !announced && !lost {
		return nil
	}
	closing := record{Kind: kindFence, Epoch: t.lease.Epoch, Owner: t.lease.Owner, Attempt: t.attempt(), Kept: t.kept, Parts: s.parts}
	if lost {
		s.lives = reborn(t.lives, t.known.Life, t.kept)
	}
	if closing.Lives = s.lives; announced {
		closing.Kind, closing.Kept = kindWatermark, 0
	}
	ans := t.ask(ctx, t.control(t.subject, closing, t.fence))
	if ans.Err != nil {
		return fmt.Errorf("%w: control subject %s: %w", delivery.ErrOutage, t.subject, ans.Err)
	}
	if s.last = ans.Sequence; announced {
		s.kept = ans.Sequence
	}
	s.wrote(ans.Sequence)
	return nil
}

// once reads and writes once. Errors other than outages end the takeover.
func (t *takeover) once(ctx context.Context) (done bool, err error) {
	ask, cancel := context.WithTimeout(ctx, t.cfg.AckTimeout)
	defer cancel()
	found, at, kept, err := t.lastRecord(ask, t.subject)
	if err != nil {
		return false, err
	}
	switch {
	case t.written[found.Attempt]: // an earlier write of this takeover was stored after all; its copy counts
		t.kept, t.fence, t.parts, t.lives = kept, at, found.located(at), found.Lives
		return true, nil
	case found.Epoch > t.lease.Epoch, found.Epoch == t.lease.Epoch && at > 0 && found.Owner != t.lease.Owner:
		return false, &delivery.FencedError{Epoch: found.Epoch, Ours: t.lease.Epoch}
	}
	fence := record{
		Kind: kindFence, Epoch: t.lease.Epoch, Owner: t.lease.Owner, Batch: found.Batch, Attempt: t.attempt(),
		Kept: kept, Parts: found.located(at), Lives: found.Lives,
	}
	if len(fence.Lives) == 0 {
		fence.Lives = reborn(nil, t.known.Life, kept)
	}
	msg := t.control(t.subject, fence, at)
	if err := t.checkRecord(msg); err != nil {
		return false, fmt.Errorf("%w: %w", delivery.ErrOutage, err)
	}
	t.written[fence.Attempt] = true
	ans := t.ask(ctx, msg)
	switch {
	case ans.Err == nil && ans.Stream != t.cfg.Stream:
		return false, t.foreign(t.subject, ans.Stream)
	case ans.Err == nil:
		t.kept, t.fence, t.parts, t.lives = kept, ans.Sequence, fence.Parts, fence.Lives
		return true, nil
	case wire.Refusal(ans.Err) == wire.CodeBadExpectedSequence: // the record read is outdated
		return false, fmt.Errorf("%w: %w", delivery.ErrOutage, ans.Err)
	case wire.IsConfiguration(ans.Err):
		return false, fmt.Errorf("%w: control subject %s: %w", delivery.ErrConfiguration, t.subject, ans.Err)
	default:
		return false, fmt.Errorf("%w: control subject %s: %w", delivery.ErrOutage, t.subject, ans.Err)
	}
}

// control makes a control message that is stored only behind the one at that position.
func (f *Fenced) control(subject string, r record, expected uint64) *nats.Msg {
	header := nats.Header{nats.ExpectedLastSubjSeqHdr: {strconv.FormatUint(expected, 10)}}
	if f.seen.keep.Load() {
		header[nats.MsgTTLHdr] = []string{"never"}
	}
	return &nats.Msg{Subject: subject, Header: header, Data: r.encode()}
}

// ask sends one control message and waits for its answer.
func (f *Fenced) ask(ctx context.Context, msg *nats.Msg) wire.Answer {
	return f.answers.Exchange(ctx, func(_, reply string) error {
		msg.Reply = reply
		return f.nc.PublishMsg(msg)
	})
}

func (f *Fenced) foreign(subject, stream string) error {
	return fmt.Errorf("%w: subject %s is acknowledged by stream %q, not by %q (--stream)", delivery.ErrConfiguration, subject, stream, f.cfg.Stream)
}
