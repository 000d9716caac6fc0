package shape

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider/delivery"
)

// ErrTransformTime is the failure of a transform that did not return in time.
var ErrTransformTime = errors.New("no result in time")

var errTransformGone = errors.New("it ended its goroutine")

// CacheLimit is the largest payload that is kept for another attempt, in bytes.
const CacheLimit = 64 << 10

// stuckTransforms may run past their time before no more are begun: nothing can end them, and each holds its
// payload. The relay then pauses until one returns.
const stuckTransforms = 16

// Shaper makes messages to be published of stored ones. Each publisher of events uses one: the relay for claimed
// messages, an EventReader for others.
type Shaper struct {
	transforms []Transform
	timeout    time.Duration // of the transforms of one message
	own        Readable      // whatever the broker takes
	large      chan struct{} // holds an entry while a large payload is transformed: it is in memory several times
	grow       int64         // how many bytes the transforms may add to a batch
	log        *slog.Logger
	stuck      atomic.Int32 // transforms that run past their time
	returned   func()       // is told when one of them returns
}

// Config has the settings of a Shaper; all are required.
type Config struct {
	Transforms []Transform
	// Timeout bounds the transforms of one message together, and as much again for each 16 MiB of its payload.
	Timeout time.Duration
	// MaxPayload is the largest payload that is read. Grow bounds the bytes that transforms add to a batch.
	MaxPayload, Grow int64
	Logger           *slog.Logger
}

// New returns a Shaper. It calls returned when a transform returns that had run past its time.
func New(cfg Config, returned func()) *Shaper {
	return &Shaper{
		transforms: cfg.Transforms, timeout: cfg.Timeout, grow: cfg.Grow,
		log: cfg.Logger, returned: returned, large: make(chan struct{}, 1),
		own: Readable{cfg.MaxPayload, fmt.Sprintf("the relay reads at most %d (outbox_settings.max_payload_bytes raises it)", cfg.MaxPayload)},
	}
}

// largeTransform is above which payloads are transformed one at a time, in bytes.
const largeTransform = 1 << 20

// Readable is the largest payload that is read, in bytes, and whose limit that is.
type Readable struct {
	Bytes int64
	Limit string
}

// Largest bounds a payload. The broker's own limit bounds it too, unless a transform may make it shorter.
func (s *Shaper) Largest(can delivery.Capabilities) Readable {
	if len(s.transforms) == 0 && can.Largest > 0 && can.Largest < s.own.Bytes {
		return Readable{can.Largest, can.Limit}
	}
	return s.own
}

// Hooks are the transforms at work on one batch, one message at a time, on a goroutine that can be left behind.
type Hooks struct {
	*Shaper

	gone   func() bool     // what is not begun yet is somebody else's
	parent context.Context //nolint:containedctx // of the batch
	ctx    context.Context //nolint:containedctx // of the transforms: it ends with the batch's, or when one's time is up
	cancel context.CancelFunc
	drafts chan *Draft // nil without transforms
	done   chan error
	timer  *time.Timer
	grown  int64 // bytes added to the batch
	most   Readable
}

// Start begins a batch that lives as long as ctx, of payloads up to most. End ends it. gone reports that nobody waits for
// the messages that were not begun yet.
func (s *Shaper) Start(ctx context.Context, most Readable, gone func() bool) *Hooks {
	h := &Hooks{Shaper: s, gone: gone, parent: ctx, most: most}
	if len(s.transforms) == 0 {
		return h
	}
	h.drafts, h.done, h.timer = make(chan *Draft), make(chan error, 1), time.NewTimer(time.Hour)
	h.ctx, h.cancel = context.WithCancel(ctx)
	go h.loop()
	return h
}

// End lets the goroutine end, when its hook has returned.
func (h *Hooks) End() {
	if h.drafts != nil {
		h.timer.Stop()
		h.cancel()
		close(h.drafts)
	}
}

func (h *Hooks) loop() {
	for d := range h.drafts {
		h.one(d)
	}
}

func (h *Hooks) one(d *Draft) {
	err := fmt.Errorf("%w: event %d of type %q: %w", ErrTransform, d.Sequence, clipText(d.Type), errTransformGone)
	defer func() { h.done <- err }() // also when the goroutine ends here
	err = applyTransforms(h.ctx, h.transforms, d)
}

// run applies the transforms to a draft within their time. One that does not return is left behind with its draft; then nothing more
// may be run. leave is called when they have returned, however late.
func (h *Hooks) run(d *Draft, leave func()) error {
	limit, sequence := h.limit(int64(len(d.Payload))), d.Sequence
	h.timer.Reset(limit)
	h.drafts <- d
	select {
	case err := <-h.done:
		if errors.Is(err, errTransformGone) {
			go h.loop()
		}
		leave()
		return err
	case <-h.timer.C:
	case <-h.ctx.Done():
	}
	h.cancel()
	h.stuck.Add(1)
	go func() {
		<-h.done //nolint:errcheck // it is too late for its error
		h.stuck.Add(-1)
		leave()
		h.returned()
	}()
	return fmt.Errorf("%w: event %d: %w, within %s", ErrTransform, sequence, ErrTransformTime, limit)
}

// limit is the time for a payload of that size: what is usual, and as much again for each 16 MiB.
func (s *Shaper) limit(size int64) time.Duration {
	return s.timeout + time.Duration(size>>24)*s.timeout
}

// enter waits until no other large payload is transformed, not for longer than that should take.
func (h *Hooks) enter(size int64) (leave func(), err error) {
	if size <= largeTransform {
		return func() {}, nil
	}
	timer := time.NewTimer(2 * h.limit(size))
	defer timer.Stop()
	select {
	case h.large <- struct{}{}:
		return func() { <-h.large }, nil
	case <-timer.C:
		return nil, fmt.Errorf("%w: one of another large payload runs past its time; no more are begun", ErrTransform)
	case <-h.ctx.Done():
		return nil, h.ctx.Err()
	}
}

// draft makes the event that transforms get. A payload that may be kept for another attempt is copied; a larger one is handed over.
func draft(m delivery.Message) *Draft {
	e := m.Event
	d := &Draft{
		ID: e.ID, Sequence: m.Sequence, Stream: m.Stream, StreamVersion: e.StreamVersion, OccurredAt: e.OccurredAt, RecordedAt: e.RecordedAt,
		Type: e.Type, Topic: m.Topic, TenantID: e.TenantID, Payload: e.Payload, Headers: maps.Clone(e.Headers),
	}
	if len(e.Payload) <= CacheLimit {
		d.Payload = bytes.Clone(e.Payload)
	}
	if d.Headers == nil {
		d.Headers = map[string]string{} // for transforms that add one
	}
	return d
}

// Shape makes the message to be sent of a claimed one, or gives it an outcome that needs no sending. stop: all that follows
// is left for another time. What the transforms add to a batch stays within what a rehydration may hold. A large payload that was handed
// to them is taken from the message.
func (h *Hooks) Shape(m *delivery.Message) (send delivery.Message, o *delivery.Outcome, stop bool) {
	send = *m
	if o := h.triage(*m); o != nil || h.drafts == nil {
		if m.Event != nil && m.Event.Size > CacheLimit {
			m.Event = m.Event.WithoutPayload() // who sends it decides how long it is kept
		}
		return send, o, false
	}
	if h.grown > h.grow || h.gone() {
		return *m, &delivery.Outcome{}, true
	}
	before := m.Event.Size
	send, o, stop = h.transform(*m)
	if before > CacheLimit {
		m.Event = m.Event.WithoutPayload() // a large one is not kept beside what was made of it
	}
	if o == nil {
		h.grown += max(0, send.Event.Size-before)
	}
	return send, o, stop
}

// triage returns the outcome of a message that need not be sent; nil: send it.
func (h *Hooks) triage(m delivery.Message) *delivery.Outcome {
	switch {
	case m.Blocked:
		return &delivery.Outcome{Kind: delivery.Behind}
	case m.NotDue:
		return &delivery.Outcome{Kind: delivery.Scheduled}
	case m.Event == nil:
		return &delivery.Outcome{Kind: delivery.Retry, Err: fmt.Errorf("%w: sequence %d", delivery.ErrEventMissing, m.Sequence)}
	case m.Event.Unreadable != nil:
		return &delivery.Outcome{Kind: delivery.Retry, Err: fmt.Errorf("%w: sequence %d", m.Event.Unreadable, m.Sequence)}
	case m.Event.AuditOnly:
		return &delivery.Outcome{Kind: delivery.Skipped}
	case m.Event.Payload == nil && m.Event.Size > h.most.Bytes:
		return &delivery.Outcome{Kind: delivery.Permanent, Err: fmt.Errorf("%w: %d bytes, %s; it was not read", delivery.ErrPayloadTooLarge, m.Event.Size, h.most.Limit)}
	default:
		return nil
	}
}

// transform applies the transforms to a message; nil: send what it returns.
func (h *Hooks) transform(m delivery.Message) (changed delivery.Message, o *delivery.Outcome, stop bool) {
	if n := h.stuck.Load(); n >= stuckTransforms {
		return m, &delivery.Outcome{Err: fmt.Errorf("%w: %d of them run past their time; no more are begun", ErrTransform, n)}, true
	}
	leave, err := h.enter(m.Event.Size)
	switch {
	case h.parent.Err() != nil && err != nil:
		return m, &delivery.Outcome{}, true
	case err != nil:
		return m, &delivery.Outcome{Err: err}, true
	}
	d, e := draft(m), *m.Event
	before := *d
	before.Headers = e.Headers
	err = h.run(d, leave)
	switch {
	case h.parent.Err() != nil: // it ended meanwhile: the heir's matter
		return m, &delivery.Outcome{}, true
	case errors.Is(err, ErrTransformTime):
		return m, &delivery.Outcome{Kind: delivery.Retry, Err: err}, true
	case err == nil:
		err = d.check(before, h.own.Bytes)
	}
	if err != nil {
		if p := (*panicError)(nil); errors.As(err, &p) {
			h.log.Error("a transform panicked", "sequence", m.Sequence, "type", clipText(e.Type), "stack", string(p.stack))
		}
		kind := delivery.Retry
		if errors.Is(err, ErrPermanent) {
			kind = delivery.Permanent
		}
		return m, &delivery.Outcome{Kind: kind, Err: err}, false
	}
	m.Topic = d.Topic
	e.Type, e.TenantID, e.Headers = d.Type, d.TenantID, d.Headers
	e.Payload, e.Size = d.Payload, int64(len(d.Payload))
	m.Event = &e
	return m, nil, false
}
