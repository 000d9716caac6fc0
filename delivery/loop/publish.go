package loop

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/shape"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// inflight is a batch between its claim and its mark, with what it takes of the window.
type inflight struct {
	delivery.Result
	term     *term
	messages int
	bytes    int64
	// crashed: it may end its worker, so that is stored first.
	crashed bool
	// published counts the messages that were; trouble is a failure that no message caused.
	published int
	trouble   error
	// late: its partition goes on, whenever it is marked.
	late bool
}

// dispatch has the events of one claim read and published.
func (r *Relay) dispatch(ctx context.Context, found delivery.Claim, messages int) {
	look := make([]*inflight, len(found.Batches))
	for i, b := range found.Batches {
		f := r.stateOf(b.Lease)
		b.Session = f.session
		look[i] = &inflight{Result: delivery.Result{Batch: b}, term: f.term, messages: len(b.Messages), crashed: f.crashed && len(b.Messages) > 0}
	}
	r.takeRoom(messages)
	reserved := min(max(r.bytes, 1), r.cfg.WindowBytes/4) // a part of the window's bytes
	r.bytes -= reserved
	r.begin(func() report {
		most := r.shaping.Largest(r.publisher.Capabilities())
		events, cutAt, err := r.events(ctx, found, most.Bytes, max(1, reserved/r.copies))
		if err == nil {
			err = r.noteInflight(ctx, look)
		}
		if err != nil {
			if ctx.Err() != nil {
				err = nil
			}
			return unread{look, reserved, err}
		}
		left := reserved
		for _, c := range look {
			c.Batch, c.bytes = attach(c.Batch, events, cutAt)
			c.bytes *= r.copies
			left -= c.bytes
		}
		r.mail.post(unused(left))
		r.publish(look, most, func(c *inflight) { r.mail.post(answered{c}) }) //nolint:contextcheck // a batch lives as long as its lease
		return nil
	})
}

func (r *Relay) takeRoom(messages int) {
	r.room -= messages
	r.unanswered += messages
	r.stats.inFlight.Store(int64(r.cfg.Window - r.room))
}

// unpublishable ends a batch that was not given to the publisher.
func (r *Relay) unpublishable(c *inflight) {
	r.unanswered -= c.messages
	r.complete(c)
}

// answered takes what became of a batch. Its partition goes on at once, or when it is marked.
func (r *Relay) answered(c *inflight) {
	l := c.Batch.Lease
	f := r.stateOf(l)
	r.unanswered -= c.messages
	if c.published > 0 {
		r.succeeded(l.Partition)
	}
	if errors.Is(c.trouble, delivery.ErrUnknown) || errors.Is(c.trouble, delivery.ErrFenced) {
		f.retake()
	}
	if errors.Is(c.trouble, delivery.ErrFenced) {
		r.stats.refused.Add(1)
		r.log.Warn("fenced by the stream: the partition has a newer owner", "partition", l.Partition, "epoch", l.Epoch, "error", c.trouble)
		l.Lost()
	} else {
		r.unresolved(l.Partition, c.trouble)
	}
	switch {
	case !slices.ContainsFunc(c.Outcomes, func(o delivery.Outcome) bool { return o.Kind != delivery.Unresolved }):
		r.abandon(c)
	case f.mayGoOn(c, r.cfg.Ordering):
		c.late = true
		f.progress(c.Result)
		for _, m := range c.Batch.Messages { // the rest of it is small
			m.Event.Payload = nil
		}
		r.bytes += c.bytes
		c.bytes = 0
		r.marks.add(c, lingerLate)
		r.free(f, c.Batch.More)
	default:
		f.to(marking)
		r.marks.add(c, linger)
	}
}

// copiesOf counts the copies of a payload that are in memory at once: as it was read, transformed, and encoded by the publisher.
func copiesOf(cfg Config, publisher delivery.Publisher) int64 {
	n := 1
	if len(cfg.Transforms) > 0 {
		n++
	}
	return int64(n + publisher.Capabilities().Copies)
}

// events returns the events of everything that can be published now.
func (r *Relay) events(ctx context.Context, found delivery.Claim, maxPayload, maxBytes int64) (map[int64]*delivery.Event, int64, error) {
	var wanted []int64
	var known []*delivery.Event
	for _, b := range found.Batches {
		for _, m := range b.Messages {
			if m.Blocked || m.NotDue {
				continue
			}
			if m.Attempts > 0 {
				if e, ok := r.cache.Get(keyOf(b, m.Sequence)); ok {
					known = append(known, e)
					continue
				}
			}
			if found.Events[m.Sequence] == nil {
				wanted = append(wanted, m.Sequence)
			}
		}
	}
	if len(wanted) == 0 && len(known) == 0 {
		return found.Events, 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.StatementTimeout)
	defer cancel()
	events, cutAt, err := r.store.Rehydrate(ctx, found.Server, wanted, maxPayload, maxBytes)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range known {
		events[e.Sequence] = e
	}
	maps.Copy(events, found.Events)
	return events, cutAt, nil
}

// attach gives the messages their events, and cuts the batch where the
// rehydration ran out of room.
func attach(b delivery.Batch, events map[int64]*delivery.Event, cutAt int64) (delivery.Batch, int64) {
	var bytes int64
	for i := range b.Messages {
		m := &b.Messages[i]
		if cutAt != 0 && m.Sequence >= cutAt {
			b.Messages, b.More = b.Messages[:i], true
			break
		}
		if m.Event = events[m.Sequence]; m.Event != nil {
			bytes += int64(len(m.Event.Payload))
		}
	}
	return b, bytes
}

// publish gives every message its outcome and every batch to done, from any goroutine. What need not be published is
// decided here; the rest is the publisher's, of all batches together, unless transforms may hold up one of them.
func (r *Relay) publish(look []*inflight, most shape.Readable, done func(*inflight)) {
	all := make([]shaped, len(look))
	if len(r.cfg.Transforms) == 0 {
		for i, c := range look {
			all[i] = r.shape(c, most)
		}
		r.send(all, done)
		return
	}
	var publishing sync.WaitGroup
	for i, c := range look {
		publishing.Go(func() {
			all[i] = r.shape(c, most)
			r.send(all[i:i+1], done)
		})
	}
	publishing.Wait()
}

type shaped struct {
	*inflight
	send  delivery.Batch
	index []int // of send's messages in the batch
}

// shape makes what is to be published, and gives what is not its outcome.
func (r *Relay) shape(c *inflight, most shape.Readable) shaped {
	b := &c.Batch
	b.Policy = r.cfg.Failure
	c.Outcomes = make([]delivery.Outcome, len(b.Messages))
	s := shaped{inflight: c, send: delivery.Batch{Lease: b.Lease, Session: b.Session, Policy: b.Policy}}
	held := map[string]bool{} // streams that go no further in this batch
	hooks := r.shaping.Start(b.Lease.Context(), most, func() bool { return !b.Lease.Valid() || b.Lease.Draining() })
	defer hooks.End()
	for i := range b.Messages {
		m, o, stop := b.Messages[i], &delivery.Outcome{Kind: delivery.Behind}, false
		if !held[m.Stream] {
			m, o, stop = hooks.Shape(&b.Messages[i])
		}
		if o == nil {
			s.send.Messages = append(s.send.Messages, m)
			s.index = append(s.index, i)
			continue
		}
		c.Outcomes[i] = *o
		if stop {
			break // what follows is left for the next claim
		}
		if o.Kind != delivery.Skipped && !b.Policy.Passes() {
			held[m.Stream] = true
		}
	}
	return s
}

func (r *Relay) send(all []shaped, done func(*inflight)) {
	look, of := make([]delivery.Batch, 0, len(all)), make([]int, 0, len(all))
	for i, s := range all {
		if len(s.index) == 0 {
			r.outcome(s.inflight, done)
			continue
		}
		look, of = append(look, s.send), append(of, i)
	}
	if len(look) == 0 {
		return
	}
	began := r.clock()
	r.publisher.Publish(look, func(i int, given []delivery.Outcome) {
		s := all[of[i]]
		if r.cfg.Observer != nil {
			r.cfg.Observer.Published(began, s.send, given)
		}
		for n, o := range given {
			s.Outcomes[s.index[n]] = o
		}
		r.outcome(s.inflight, done)
	})
}

// outcome ends what publish began for a batch.
func (r *Relay) outcome(c *inflight, done func(*inflight)) {
	c.published, c.trouble = r.observe(c.Batch, c.Outcomes)
	c.Batch.More = c.Batch.More || leftOver(c.Outcomes)
	done(c)
}

// leftOver reports whether the publisher took a part of the batch and left the rest
// for no fault of anybody.
func leftOver(outcomes []delivery.Outcome) bool {
	last := len(outcomes) - 1
	return last > 0 && outcomes[0].Kind != delivery.Unresolved && outcomes[last].Kind == delivery.Unresolved && outcomes[last].Err == nil
}

// cacheKey names the event of a failed message. Behind a failover its sequence may be another event's.
type cacheKey struct{ sequence, server int64 }

func keyOf(b delivery.Batch, sequence int64) cacheKey {
	return cacheKey{sequence, b.Server.UnixMicro()}
}

// observe counts the outcomes and keeps the events of failed messages for their
// next attempt. It returns how many were published, and what no message caused.
func (r *Relay) observe(b delivery.Batch, outcomes []delivery.Outcome) (published int, trouble error) {
	now := time.Now()
	for i, o := range outcomes {
		m := b.Messages[i]
		switch o.Kind {
		case delivery.Published:
			published++
			if m.Attempts > 0 {
				r.cache.Remove(keyOf(b, m.Sequence))
			}
			if m.Generation == 0 { // others waited for a person
				r.stats.latency.Observe(max(0, now.Sub(m.Wanted()).Seconds()))
			}
		case delivery.Retry:
			r.stats.failure(o.Err)
			if m.Event != nil && m.Event.Unreadable == nil && m.Event.Size <= shape.CacheLimit {
				r.cache.Add(keyOf(b, m.Sequence), m.Event.Clone())
			}
		case delivery.Permanent:
			r.stats.failure(o.Err)
		case delivery.Unresolved:
			trouble = cmp.Or(trouble, o.Err)
		case delivery.Skipped, delivery.Behind, delivery.Scheduled:
		}
	}
	return published, trouble
}

// unresolved reacts to a failure that no message caused.
func (r *Relay) unresolved(id partition.ID, err error) {
	switch {
	case err == nil: // nothing failed, or the lease ended
	case errors.Is(err, delivery.ErrConfiguration):
		r.stats.failure(err)
		r.misconfigured(err)
	default:
		r.unpublished(id, err)
	}
}

// CrashesToPause owners in a row that marked nothing pause a partition. The first may have ended over anything;
// the others were publishing its messages. Workers that are killed at random hardly ever end so, again and again.
const CrashesToPause = 4

// noteInflight stores that messages are about to be published behind a crash.
func (r *Relay) noteInflight(ctx context.Context, look []*inflight) error {
	var leases []*lease.Lease
	for _, c := range look {
		if c.crashed {
			leases = append(leases, c.Batch.Lease)
		}
	}
	if len(leases) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.StatementTimeout)
	defer cancel()
	return r.store.Carrying(ctx, leases, true)
}

// abandon ends a batch whose outcomes all stay unknown. No worker ended over its messages, so an outage pauses no partition.
func (r *Relay) abandon(c *inflight) {
	if !c.crashed || !c.Batch.Lease.Valid() {
		r.complete(c)
		return
	}
	r.begin(func() report {
		ctx, cancel := context.WithTimeout(c.Batch.Lease.Context(), r.cfg.StatementTimeout)
		defer cancel()
		if err := r.store.Carrying(ctx, []*lease.Lease{c.Batch.Lease}, false); err != nil { // the batch is published again
			r.log.Debug("a partition stays noted as carried", "partition", c.Batch.Lease.Partition, "error", err)
		}
		return abandoned{c}
	})
}

// pauseOver pauses a partition over whose first messages owners ended, one after the other, until a person resumes it.
func (t *takeover) pauseOver(ctx context.Context) error {
	if t.lease.Progress.Crashes < CrashesToPause {
		return nil
	}
	sequence, stream, err := t.store.PauseOver(ctx, t.lease, CrashesToPause, "workers ended one after the other while they carried its first messages")
	if err == nil && sequence > 0 {
		t.log.Error("THE PARTITION IS PAUSED: workers ended one after the other while they carried its first messages; mend what ends them, then resume it",
			"partition", t.lease.Partition, "workers", t.lease.Progress.Crashes, "sequence", sequence, "stream", stream)
	}
	return err
}
