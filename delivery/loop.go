package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/postrider/postrider/lease"
)

// claimLoop looks at the outbox whenever there is a reason.
func (r *Relay) claimLoop(ctx context.Context, held *lease.Set, once bool, publishing *sync.WaitGroup) error {
	extent := time.NewTicker(r.cfg.ExtentInterval)
	defer extent.Stop()
	r.checkExtent(ctx)
	plan := newSchedule(r.cfg, once)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for turn := 0; ctx.Err() == nil; {
		o, settled, ready := r.survey()
		do, wait := plan.next(time.Now(), o)
		switch do {
		case actLookNamed, actLookAll:
			l, err := r.look(ctx, held, turn, look{every: do == actLookAll, little: plan.little}, publishing)
			turn++
			plan.looked(l, r.stats.watermark.Load())
			if once && err == nil && l.found == 0 && l.asked == held.Len() && !plan.lag.moving(l.ended) {
				return nil
			}
			continue
		case actProbe:
			plan.probed(time.Now(), r.position(ctx))
			continue
		case actWait:
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case err := <-r.fatal:
			return err
		case <-timer.C:
			continue
		case <-settled:
			continue
		case <-ready:
			continue
		case <-extent.C:
			r.checkExtent(ctx)
			r.wantAll()
		case <-r.freed:
		case <-held.Changed():
			r.wantAll()
		case <-r.bell.Rung():
			r.hear()
		}
		plan.want(time.Now())
	}
	return nil
}

// survey is what the schedule decides by, with what is closed when nothing is in hand
// and when the publisher is ready; nil when it is so.
func (r *Relay) survey() (o observation, settled, ready <-chan struct{}) {
	r.mu.Lock()
	o.every, o.pause, o.inHand = r.all, r.pause.until, r.room < r.cfg.Window
	for _, f := range r.flows {
		if o.named = f.named; o.named {
			break
		}
	}
	r.mu.Unlock()
	p, gathers := r.publisher.(Pacer)
	if !gathers {
		return o, nil, nil
	}
	o.gathers = true
	if ready = p.Ready(); closed(ready) {
		o.ready, ready = true, nil
	}
	if o.inHand {
		settled = r.settledAll()
	}
	return o, settled, ready
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// hear notes what a ring was for. Partitions that are busy are claimed once more when
// they are settled.
func (r *Relay) hear() {
	named, every := r.bell.Heard()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range named {
		if f := r.flows[id]; f != nil {
			f.again, f.named = f.again || f.busy(), true
		}
	}
	if every {
		r.all = true
		for _, f := range r.flows {
			f.again = f.again || f.busy()
		}
	}
}

// wantAll has the next look ask for every partition.
func (r *Relay) wantAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = true
}

// position tells where the log of the server ends; empty: nobody knows.
func (r *Relay) position(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.StatementTimeout)
	defer cancel()
	position, err := r.store.Position(ctx)
	if err != nil {
		return ""
	}
	return position
}

// look looks once, and says what came of it.
func (r *Relay) look(ctx context.Context, held *lease.Set, turn int, l look, publishing *sync.WaitGroup) (look, error) {
	select {
	case <-r.freed: // whatever it was for is looked for now
	default:
	}
	l.began = time.Now()
	asks := r.enter(ctx, held.Held(), turn, l.every, publishing)
	found, position, err := r.round(ctx, asks, l, publishing)
	l.ended, l.asked, l.found = time.Now(), len(asks), found
	if l.asked == held.Len() {
		l.position = position
	}
	switch {
	case err != nil && ctx.Err() == nil:
		r.away(err)
	case err == nil && found == 0 && l.asked == held.Len():
		r.idle()
	}
	return l, err
}

// settledAll returns a channel that is closed when nothing is between claim and mark.
func (r *Relay) settledAll() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cleared == nil {
		r.cleared = make(chan struct{})
	}
	cleared := r.cleared
	r.roomLocked(0)
	return cleared
}

// wakeAll has all of the outbox looked at again.
func (r *Relay) wakeAll() {
	r.wantAll()
	r.wake()
}

// wake has the outbox looked at again, at what was named or at all.
func (r *Relay) wake() {
	select {
	case r.freed <- struct{}{}:
	default:
	}
}
