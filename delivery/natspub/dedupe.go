package natspub

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/partition"
)

// DedupeConfig says how a publisher in dedupe mode works.
type DedupeConfig struct {
	// Stream is the JetStream stream that must acknowledge. Defaults to EVENTS.
	Stream string
	// APIPrefix is as in StreamConfig.
	APIPrefix string
	// Shape says how an event becomes a message.
	Shape Shape
	// AckTimeout is the longest that the broker may be silent while acknowledgements are
	// awaited; at least 10 ms. It is a second at first, and as long as they take. After it
	// their outcomes are unknown. Defaults to 5 s.
	AckTimeout time.Duration
	// MaxMessageSize is the most that headers and body may have, in bytes; 0 or below: as much as the stream takes, as
	// Extent saw it last. The server's max_payload always applies.
	MaxMessageSize int
}

// Dedupe publishes with message ids: pipelined over streams, one message in
// flight for each. It implements delivery.Publisher.
type Dedupe struct {
	cfg     DedupeConfig
	build   builder
	writers *writers
	nc      *nats.Conn
	answers *answers
	api     api
	seen    seen
}

// NewDedupe returns a publisher on a connection made by Connect. Close ends it.
func NewDedupe(nc *nats.Conn, cfg DedupeConfig) (*Dedupe, error) {
	cfg.Stream = cmp.Or(cfg.Stream, DefaultStream)
	cfg.AckTimeout = cmp.Or(cfg.AckTimeout, defaultAckTimeout)
	if cfg.AckTimeout < 10*time.Millisecond {
		return nil, fmt.Errorf("%w: AckTimeout must be at least 10ms, got %s", ErrConfig, cfg.AckTimeout)
	}
	build, err := newBuilder(cfg.Shape)
	if err != nil {
		return nil, err
	}
	if nc.Opts.ReconnectBufSize >= 0 {
		return nil, fmt.Errorf("%w: the connection must not buffer while it reconnects: ReconnectBufSize(-1)", ErrConfig)
	}
	a, err := newAnswers(nc)
	if err != nil {
		return nil, err
	}
	return &Dedupe{cfg: cfg, build: build, writers: newWriters(build), nc: nc, answers: a, api: newAPI(nc, cfg.APIPrefix, cfg.Stream, cfg.AckTimeout)}, nil
}

// Close ends the subscription to acknowledgements.
func (d *Dedupe) Close() error { return d.answers.close() }

// Take implements delivery.Publisher. Nothing keeps late messages of an earlier
// owner out of the stream in this mode; their ids keep them from being stored
// twice, for as long as the stream's duplicate window.
func (d *Dedupe) Take(ctx context.Context, _ *lease.Lease) (delivery.Standing, error) {
	extent, err := d.Extent(ctx)
	return delivery.Standing{Kept: extent.Last}, err
}

// Kept implements delivery.Publisher.
func (d *Dedupe) Kept(ctx context.Context, _ partition.ID) (uint64, error) {
	extent, err := d.Extent(ctx)
	return extent.Last, err
}

// Between implements delivery.Publisher: there are no records.
func (d *Dedupe) Between(_ context.Context, _ partition.ID, after, _ uint64) (uint64, []delivery.Delivered, error) {
	return after, nil, nil
}

// Extent implements delivery.Publisher.
func (d *Dedupe) Extent(ctx context.Context) (delivery.Extent, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.AckTimeout)
	defer cancel()
	info, err := d.api.info(ctx)
	if err != nil {
		return delivery.Extent{}, err
	}
	return d.seen.of(info, Needs{Mode: PublishDedupe, Subject: d.build.Subject}), nil
}

// Steps implements delivery.Stepper: of a partition that is kept in order the next message
// is sent when the one before was acknowledged.
func (d *Dedupe) Steps(order delivery.Ordering) bool { return order != delivery.OrderStream }

// Publish implements delivery.Publisher.
func (d *Dedupe) Publish(look []delivery.Batch, done func(int, []delivery.Outcome)) {
	var publishing sync.WaitGroup
	for i, b := range look {
		publishing.Go(func() { done(i, d.one(b.Lease.Context(), b)) })
	}
	publishing.Wait()
}

// one publishes one batch.
func (d *Dedupe) one(ctx context.Context, b delivery.Batch) []delivery.Outcome {
	w := d.writers.get()
	defer d.writers.put(w)
	run := &pipeline{
		Dedupe: d, batch: b, writer: w,
		outcomes: make([]delivery.Outcome, len(b.Messages)),
		next:     followers(b.Messages, d.Steps(b.Order)),
		held:     map[string]bool{},
		replies:  make(map[int]string, len(b.Messages)),
		done:     make(chan struct{}),
	}
	disconnected := d.nc.StatusChanged(nats.RECONNECTING, nats.CLOSED, nats.DISCONNECTED)
	defer d.nc.RemoveStatusListener(disconnected)
	run.drive(ctx, disconnected)
	return run.outcomes
}

// followers gives for each message the index of the one that is sent when it is
// settled: the next one of its stream, or of the whole partition where that is
// kept in order; 0 for the last, as the first message follows nothing.
func followers(messages []delivery.Message, steps bool) []int {
	next := make([]int, len(messages))
	last := make(map[string]int, len(messages))
	for i, m := range messages {
		chain := m.Stream
		if steps {
			chain = ""
		}
		if before, ok := last[chain]; ok {
			next[before] = i
		}
		last[chain] = i
	}
	return next
}

// pipeline is a batch under way. An answer has the next message sent at once, on
// the goroutine that reads the answers of all partitions: what is answered together is
// followed by messages that go out together.
type pipeline struct {
	*Dedupe
	batch delivery.Batch
	next  []int
	done  chan struct{} // closed when nothing is in flight any more

	mu       sync.Mutex // held by whoever sends, takes and settles
	writer   *writer
	outcomes []delivery.Outcome
	held     map[string]bool // streams behind a failed message
	replies  map[int]string  // in flight
	heard    time.Time       // the last answer
}

// drive sends the first message of every stream, and waits until all that follow them are settled.
func (p *pipeline) drive(ctx context.Context, disconnected <-chan nats.Status) {
	p.begin()
	patience := p.api.patience.now()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-ctx.Done():
			p.abandon(context.Cause(ctx))
		case <-disconnected:
			p.abandon(nats.ErrDisconnected)
		case <-timeout.C:
			if left := patience - p.silence(); left > 0 {
				timeout.Reset(left)
				continue
			}
			p.api.patience.unanswered(patience)
			p.abandon(fmt.Errorf("no acknowledgement within %s", patience))
		}
	}
}

// begin sends the first message of every stream.
func (p *pipeline) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.endLocked()
	follows := make([]bool, len(p.batch.Messages))
	for _, n := range p.next {
		follows[n] = follows[n] || n > 0
	}
	p.heard = time.Now()
	for i := range p.batch.Messages {
		if !follows[i] {
			p.send(i)
		}
	}
}

// receive takes the answer to a message in flight, and sends what follows it.
func (p *pipeline) receive(ans answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.replies[ans.index]; !ok {
		return // it was given up meanwhile
	}
	defer p.endLocked()
	delete(p.replies, ans.index)
	now := time.Now()
	p.api.patience.answered(now.Sub(p.heard))
	p.heard = now
	p.take(ans)
}

// silence is how long nothing was answered.
func (p *pipeline) silence() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.heard)
}

func (p *pipeline) endLocked() {
	if len(p.replies) == 0 {
		close(p.done)
	}
}

// send publishes message i, or gives it its outcome when it cannot be sent.
func (p *pipeline) send(i int) {
	m := p.batch.Messages[i]
	if p.held[m.Stream] {
		p.settle(i, delivery.Outcome{Kind: delivery.Behind})
		return
	}
	if err := p.build.Headers.check(m.Event); err != nil {
		p.settle(i, delivery.Outcome{Kind: delivery.Permanent, Err: err})
		return
	}
	msg := p.writer.message(m, p.build.body(m))
	p.writer.set(message.HeaderEpoch, p.writer.number(p.batch.Lease.Epoch))
	p.writer.set(nats.MsgIdHdr, p.writer.messageID(m))
	if err := checkSize(headerSize(msg.Header)+len(msg.Data), p.nc.MaxPayload(), p.seen.most(p.cfg.MaxMessageSize), p.cfg.Stream); err != nil {
		p.settle(i, delivery.Outcome{Kind: delivery.Permanent, Err: err})
		return
	}
	// A handover does not wait for what is not sent yet: that is the heir's.
	if !p.batch.Lease.Valid() || p.batch.Lease.Draining() {
		p.settle(i, delivery.Outcome{Kind: delivery.Unresolved})
		return
	}
	msg.Reply = p.answers.expect(i, p)
	if err := p.nc.PublishMsg(msg); err != nil {
		p.answers.forget(msg.Reply)
		p.settle(i, classify(plainly(p.nc, err)))
		return
	}
	p.replies[i] = msg.Reply
}

// checkSize compares a message with the limits of server and stream, so that it
// fails by itself and not with its neighbours.
func checkSize(size int, server int64, stream int, name string) error {
	switch {
	case server > 0 && int64(size) > server:
		return fmt.Errorf("%w: message of %d bytes, the server's max_payload is %d", delivery.ErrPayloadTooLarge, size, server)
	case stream > 0 && size > stream:
		return fmt.Errorf("%w: message of %d bytes, stream %s takes at most %d (max_msg_size, or what its files can hold)", delivery.ErrPayloadTooLarge, size, name, stream)
	}
	return nil
}

// take handles an answer.
func (p *pipeline) take(ans answer) {
	switch {
	case ans.err != nil:
		p.settle(ans.index, classify(ans.err))
	case ans.stream != p.cfg.Stream:
		p.settle(ans.index, delivery.Outcome{Err: fmt.Errorf("%w: subject %s is acknowledged by stream %q, not by %q (--stream)",
			delivery.ErrConfiguration, p.build.Subject.Of(p.batch.Messages[ans.index]), ans.stream, p.cfg.Stream)})
	default:
		p.settle(ans.index, delivery.Outcome{Kind: delivery.Published, StreamSequence: ans.sequence, Duplicate: ans.duplicate})
	}
}

// settle gives message i its outcome and what follows it the consequence: the next
// message is sent, or waits behind a failed one of its stream, or is unresolved
// like it.
func (p *pipeline) settle(i int, o delivery.Outcome) {
	p.outcomes[i] = o
	switch o.Kind {
	case delivery.Unresolved:
		return // and so are those that follow it, which were not sent
	case delivery.Retry, delivery.Permanent:
		p.held[p.batch.Messages[i].Stream] = p.batch.Policy != delivery.BehindNone
	case delivery.Published, delivery.Skipped, delivery.Behind, delivery.Scheduled:
	}
	if n := p.next[i]; n > 0 {
		p.send(n)
	}
}

// abandon gives up on everything in flight: its outcome is unknown.
func (p *pipeline) abandon(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.replies) == 0 {
		return // the last answer came just now
	}
	defer p.endLocked()
	for i, reply := range p.replies {
		p.answers.forget(reply)
		delete(p.replies, i)
		p.settle(i, delivery.Outcome{Kind: delivery.Unresolved, Err: fmt.Errorf("%w: %w", delivery.ErrUnknown, cause)})
	}
}
