package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"
)

var (
	errTransformTime = errors.New("no result in time")
	errTransformGone = errors.New("it ended its goroutine")
)

// stuckTransforms is how many transforms may run past their time before no more are begun: nothing can end them, and each holds its
// payload. The relay then pauses until one returns.
const stuckTransforms = 16

// hooks are the transforms of one batch at work, one message at a time, on a goroutine that can be left behind. A nil one changes
// nothing.
type hooks struct {
	relay  *Relay
	lease  context.Context //nolint:containedctx // of the batch
	ctx    context.Context //nolint:containedctx // of the transforms: it ends with the lease, or when one's time is up
	cancel context.CancelFunc
	drafts chan *Draft
	done   chan error
	timer  *time.Timer
	grown  int64 // bytes added to the batch
}

// startHooks returns the hooks of a batch, nil where there are none. end ends them.
func (r *Relay) startHooks(b Batch) *hooks {
	if len(r.cfg.Transforms) == 0 {
		return nil
	}
	h := &hooks{relay: r, lease: b.Lease.Context(), drafts: make(chan *Draft), done: make(chan error, 1), timer: time.NewTimer(time.Hour)}
	h.ctx, h.cancel = context.WithCancel(h.lease)
	go h.loop()
	return h
}

// end lets the goroutine end, when its hook has returned.
func (h *hooks) end() {
	if h != nil {
		h.timer.Stop()
		h.cancel()
		close(h.drafts)
	}
}

func (h *hooks) loop() {
	for d := range h.drafts {
		h.one(d)
	}
}

func (h *hooks) one(d *Draft) {
	err := fmt.Errorf("%w: event %d of type %q: %w", ErrTransform, d.Sequence, clipText(d.Type), errTransformGone)
	defer func() { h.done <- err }() // also when the goroutine ends here
	err = applyTransforms(h.ctx, h.relay.cfg.Transforms, d)
}

// run applies the transforms to a draft within their time. One that does not return is left behind with its draft; then nothing more
// may be run.
func (h *hooks) run(d *Draft) error {
	limit, sequence := h.relay.cfg.TransformTimeout, d.Sequence
	h.timer.Reset(limit)
	h.drafts <- d
	select {
	case err := <-h.done:
		if errors.Is(err, errTransformGone) {
			go h.loop()
		}
		return err
	case <-h.timer.C:
	case <-h.ctx.Done():
	}
	h.cancel()
	h.relay.stuck.Add(1)
	go func() {
		<-h.done //nolint:errcheck // it is too late for its error
		h.relay.stuck.Add(-1)
		h.relay.wake()
	}()
	return fmt.Errorf("%w: event %d: %w, within %s", ErrTransform, sequence, errTransformTime, limit)
}

// draft is what the transforms get. A payload that may be kept for another attempt is copied; a larger one is handed over.
func draft(m Message) *Draft {
	e := m.Event
	d := &Draft{
		ID: e.ID, Sequence: m.Sequence, Stream: m.Stream, StreamVersion: e.StreamVersion, OccurredAt: e.OccurredAt, RecordedAt: e.RecordedAt,
		Type: e.Type, Topic: m.Topic, TenantID: e.TenantID, Payload: e.Payload, Headers: maps.Clone(e.Headers),
	}
	if len(e.Payload) <= cacheLimit {
		d.Payload = bytes.Clone(e.Payload)
	}
	return d
}

// change is message i of the batch as the transforms want it, or the outcome of their failure. stop tells that the rest of the batch is
// left for the next claim. What they add to a batch stays within what a rehydration may hold.
func (h *hooks) change(b Batch, i int) (m Message, o *Outcome, stop bool) {
	m = b.Messages[i]
	if h == nil {
		return m, nil, false
	}
	if h.grown > h.relay.cfg.WindowBytes/4 || !b.Lease.Valid() || b.Lease.Draining() {
		return m, &Outcome{}, true
	}
	before := m.Event.Size
	m, o, stop = h.transform(m)
	if before > cacheLimit {
		// A large payload is not kept beside what was made of it.
		original := *b.Messages[i].Event
		original.Payload = nil
		b.Messages[i].Event = &original
	}
	if o == nil {
		h.grown += max(0, m.Event.Size-before)
	}
	return m, o, stop
}

// transform applies the transforms to a message; nil: send what it returns.
func (h *hooks) transform(m Message) (changed Message, o *Outcome, stop bool) {
	r := h.relay
	if n := r.stuck.Load(); n >= stuckTransforms {
		return m, &Outcome{Err: fmt.Errorf("%w: %d of them run past their time; no more are begun", ErrTransform, n)}, true
	}
	d, e := draft(m), *m.Event
	before := *d
	before.Headers = e.Headers
	err := h.run(d)
	switch {
	case h.lease.Err() != nil: // it ended meanwhile: the heir's matter
		return m, &Outcome{}, true
	case errors.Is(err, errTransformTime):
		return m, &Outcome{Kind: Retry, Err: err}, true
	case err == nil:
		err = d.check(before, r.cfg.MaxPayload)
	}
	if err != nil {
		if p := (*panicError)(nil); errors.As(err, &p) {
			r.log.Error("a transform panicked", "sequence", m.Sequence, "type", clipText(e.Type), "stack", string(p.stack))
		}
		kind := Retry
		if errors.Is(err, ErrPermanent) {
			kind = Permanent
		}
		return m, &Outcome{Kind: kind, Err: err}, false
	}
	m.Topic = d.Topic
	e.Type, e.TenantID, e.Headers = d.Type, d.TenantID, d.Headers
	e.Payload, e.Size = d.Payload, int64(len(d.Payload))
	m.Event = &e
	return m, nil, false
}
