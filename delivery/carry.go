package delivery

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/postrider/postrider/partition"
)

// carried is a batch on its way to the mark, with what it takes of the window.
type carried struct {
	Result
	messages int
	bytes    int64
}

// carry rehydrates what one claim found and publishes it.
func (r *Relay) carry(ctx context.Context, found Claim) {
	reserved, most := r.reserve(), r.shaping.largest(r.publisher)
	events, cutAt, err := r.events(ctx, found, most.bytes, max(1, reserved/r.copies))
	found.Close()
	if err != nil && ctx.Err() == nil {
		r.away(err)
	}
	look := make([]carried, 0, len(found.Batches))
	for _, b := range found.Batches {
		c := carried{messages: len(b.Messages)}
		if err != nil || !r.suspected(ctx, b) {
			r.settled(b, c.messages, 0)
			continue
		}
		c.Batch, c.bytes = attach(b, events, cutAt)
		c.bytes *= r.copies
		reserved -= c.bytes
		look = append(look, c)
	}
	r.unreserve(reserved)
	r.publish(look, most, func(c carried) { r.finished <- c }) //nolint:contextcheck // a batch lives as long as its lease
}

// held is how many times a payload is in memory at once: as it was read, transformed, and what the publisher makes of it.
func held(cfg Config, publisher Publisher) int64 {
	n := 1
	if len(cfg.Transforms) > 0 {
		n++
	}
	if s, ok := publisher.(Sizer); ok {
		n += s.Copies()
	}
	return int64(n)
}

// reserve takes a part of the window's bytes for one rehydration.
func (r *Relay) reserve() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	part := min(max(r.bytes, 1), r.cfg.WindowBytes/4)
	r.bytes -= part
	return part
}

// unreserve gives back what is left of a reservation; a single payload larger
// than it leaves the window in debt until its batch is settled.
func (r *Relay) unreserve(left int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes += left
}

// events returns the events of everything that can be published now.
func (r *Relay) events(ctx context.Context, found Claim, maxPayload, maxBytes int64) (map[int64]*Event, int64, error) {
	var wanted []int64
	var known []*Event
	for _, b := range found.Batches {
		for _, m := range b.Messages {
			if m.Blocked || m.NotDue {
				continue
			}
			if m.Attempts > 0 {
				if e, ok := r.cache.Get(m.Sequence); ok {
					known = append(known, e)
					continue
				}
			}
			if found.events[m.Sequence] == nil {
				wanted = append(wanted, m.Sequence)
			}
		}
	}
	if len(wanted) == 0 && len(known) == 0 {
		return found.events, 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.StatementTimeout)
	defer cancel()
	events, cutAt, err := r.store.Rehydrate(ctx, found, wanted, maxPayload, maxBytes)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range known {
		events[e.Sequence] = e
	}
	maps.Copy(events, found.events)
	return events, cutAt, nil
}

// attach gives the messages their events, and cuts the batch where the
// rehydration ran out of room.
func attach(b Batch, events map[int64]*Event, cutAt int64) (Batch, int64) {
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

// suspected notes durably what a partition that is carried one by one is about to
// do; true: go on.
func (r *Relay) suspected(ctx context.Context, b Batch) bool {
	if !r.careful(b.Lease) || len(b.Messages) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.StatementTimeout)
	defer cancel()
	err := r.store.Suspect(ctx, b.Lease, b.Messages[0].Sequence)
	if err != nil && ctx.Err() == nil {
		r.unpublished(b.Lease.Partition, err)
	}
	return err == nil
}

// publish gives every message its outcome and every batch to done, from any goroutine. What need not be published is
// decided here; the rest is the publisher's, of all batches together, unless transforms may hold up one of them.
func (r *Relay) publish(look []carried, most readable, done func(carried)) {
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

// shaped is a batch with what of it goes to the publisher.
type shaped struct {
	carried
	send  Batch
	index []int // of send's messages in the batch
}

// shape makes what is to be published, and gives what is not its outcome.
func (r *Relay) shape(c carried, most readable) shaped {
	b := &c.Batch
	b.Order, b.Policy = r.cfg.Ordering, r.cfg.Failure
	c.Outcomes = make([]Outcome, len(b.Messages))
	s := shaped{carried: c, send: Batch{Lease: b.Lease, Order: b.Order, Policy: b.Policy}}
	held := map[string]bool{} // streams that go no further in this batch
	hooks := r.shaping.start(b.Lease.Context(), func() bool { return !b.Lease.Valid() || b.Lease.Draining() })
	defer hooks.end()
	hooks.most = most
	for i := range b.Messages {
		m, o, stop := b.Messages[i], &Outcome{Kind: Behind}, false
		if !held[m.Stream] {
			m, o, stop = hooks.shape(&b.Messages[i])
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
		if o.Kind != Skipped && !b.Policy.passes() {
			held[m.Stream] = true
		}
	}
	return s
}

// send publishes what was shaped.
func (r *Relay) send(all []shaped, done func(carried)) {
	look, of := make([]Batch, 0, len(all)), make([]int, 0, len(all))
	for i, s := range all {
		if len(s.index) == 0 {
			r.answered(s.carried, done)
			continue
		}
		look, of = append(look, s.send), append(of, i)
	}
	if len(look) == 0 {
		return
	}
	began := r.clock()
	r.publisher.Publish(look, func(i int, given []Outcome) {
		s := all[of[i]]
		if r.cfg.Observer != nil {
			r.cfg.Observer.Published(began, s.send, given)
		}
		for n, o := range given {
			s.Outcomes[s.index[n]] = o
		}
		r.answered(s.carried, done)
	})
}

// answered ends what publish began for a batch.
func (r *Relay) answered(c carried, done func(carried)) {
	r.observe(c.Batch, c.Outcomes)
	c.Batch.More = c.Batch.More || leftOver(c.Outcomes)
	done(c)
}

// leftOver tells whether the publisher took a part of the batch and left the rest
// for no fault of anybody.
func leftOver(outcomes []Outcome) bool {
	last := len(outcomes) - 1
	return last > 0 && outcomes[0].Kind != Unresolved && outcomes[last].Kind == Unresolved && outcomes[last].Err == nil
}

// cacheLimit is the largest payload kept for a retry, in bytes.
const cacheLimit = 64 << 10

// observe counts the outcomes, keeps the events of failed messages for their
// next attempt, and reacts to what no message caused.
func (r *Relay) observe(b Batch, outcomes []Outcome) {
	now := time.Now()
	published := 0
	var unresolved error
	for i, o := range outcomes {
		m := b.Messages[i]
		switch o.Kind {
		case Published:
			published++
			if o.Duplicate {
				r.stats.duplicates.Add(1)
			}
			if m.Attempts > 0 {
				r.cache.Remove(m.Sequence)
			}
			if m.Generation == 0 { // others waited for a person
				r.stats.latency.Observe(now.Sub(m.wanted()).Seconds())
			}
		case Retry:
			r.stats.failure(o.Err)
			if m.Event != nil && m.Event.Unreadable == nil && m.Event.Size <= cacheLimit {
				r.cache.Add(m.Sequence, m.Event.clone())
			}
		case Permanent:
			r.stats.failure(o.Err)
		case Unresolved:
			unresolved = cmp.Or(unresolved, o.Err)
		case Skipped, Behind, Scheduled:
		}
	}
	if published > 0 {
		r.succeeded(b.Lease.Partition)
	}
	if errors.Is(unresolved, ErrUnknown) || errors.Is(unresolved, ErrFenced) {
		r.forget(b.Lease.Partition)
	}
	if errors.Is(unresolved, ErrFenced) {
		r.stats.refused.Add(1)
		r.log.Warn("fenced by the stream: the partition has a newer owner", "partition", b.Lease.Partition, "epoch", b.Lease.Epoch, "error", unresolved)
		b.Lease.Lost()
		return
	}
	r.unresolved(b.Lease.Partition, unresolved)
}

// unresolved reacts to a failure that no message caused.
func (r *Relay) unresolved(id partition.ID, err error) {
	switch {
	case err == nil: // nothing failed, or the lease ended
	case errors.Is(err, ErrConfiguration):
		r.stats.failure(err)
		select {
		case r.fatal <- err:
		default:
		}
	default:
		r.unpublished(id, err)
	}
}
