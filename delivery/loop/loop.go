package loop

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/postrider/postrider/lease"
)

// loop looks at the outbox whenever there is a reason, until the context ends, and finishes what is under way.
func (r *Relay) loop(ctx context.Context, held *lease.Set, once bool) error {
	r.stopping = ctx.Done()
	defer r.finish(ctx)
	aside, leave := context.WithCancel(ctx) // what nobody waits for
	defer leave()
	extent := time.NewTicker(r.cfg.ExtentInterval)
	defer extent.Stop()
	trim := time.NewTicker(trimEvery(r.cfg))
	defer trim.Stop()
	r.checkExtent(ctx)
	plan := newSchedule(r.cfg, once)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for turn := 0; ctx.Err() == nil; {
		if r.read(); r.fatal != nil {
			return r.fatal
		}
		if r.woken {
			r.woken = false
			plan.want(time.Now())
		}
		r.mark(ctx, time.Now())
		o, ready := r.survey()
		do, wait := plan.next(time.Now(), o)
		switch do {
		case actLookRequested, actLookAll:
			l, err := r.look(ctx, held, turn, look{every: do == actLookAll, little: plan.little})
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
		timer.Reset(r.marks.before(wait))
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			continue
		case <-r.mail.arrived:
			continue
		case <-ready:
			continue
		case <-extent.C:
			r.checkExtent(ctx)
			r.all = true
		case <-trim.C:
			r.trim(aside)
			continue
		case <-held.Changed():
			r.all = true
		case <-r.bell.Rung():
			r.hear()
		}
		plan.want(time.Now())
	}
	return nil
}

// survey gathers the facts that the schedule decides by. ready is closed when the publisher is ready; nil: it is.
func (r *Relay) survey() (o observation, ready <-chan struct{}) {
	o.every, o.pause, o.unanswered = r.all, r.pause.until, r.unanswered > 0
	for _, f := range r.partitions {
		if o.requested = f.requested; o.requested {
			break
		}
	}
	ready = r.publisher.Ready()
	if o.gathers = ready != nil; !o.gathers {
		return o, nil
	}
	select {
	case <-ready:
		o.ready, ready = true, nil
	default:
	}
	return o, ready
}

// hear notes what a ring was for. Partitions that are busy are claimed once more when
// they are not any more.
func (r *Relay) hear() {
	named, every := r.bell.Heard()
	for _, id := range named {
		if f := r.partitions[id]; f != nil {
			f.more, f.requested = f.more || f.busy(), true
		}
	}
	if every {
		r.all = true
		for _, f := range r.partitions {
			f.more = f.more || f.busy()
		}
	}
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
func (r *Relay) look(ctx context.Context, held *lease.Set, turn int, l look) (look, error) {
	l.began = time.Now()
	if r.unfit != nil || r.held != nil {
		l.ended = l.began
		err := cmp.Or(r.unfit, r.held)
		r.away(err)
		return l, err
	}
	asks := r.enter(ctx, held.Held(), turn, l.every)
	found, position, err := r.round(ctx, asks, l)
	l.ended, l.asked, l.found = time.Now(), len(asks), found
	if l.asked == held.Len() {
		l.position = position
	}
	switch {
	case err != nil && ctx.Err() == nil && !errors.Is(err, errTakenAnew):
		r.away(err)
	case err == nil && found == 0 && l.asked == held.Len():
		r.idle()
	}
	return l, err
}

// wakeAll has all of the outbox looked at again.
func (r *Relay) wakeAll() { r.all, r.woken = true, true }
