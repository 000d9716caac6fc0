package faultproxy

import (
	"net"
	"time"
)

type move int

const (
	moveWait    move = iota
	moveInspect      // give the chunk to the filter
	moveSend         // write the data
	moveAct          // call after
	moveEnd          // the source has ended and everything before is delivered
	moveStop         // there is nothing to do any more
)

// step is a move with its object.
type step struct {
	move      move
	data      []byte
	after     action
	delivered bool
	wait      time.Duration // until the next look; 0 means until something changes
}

// forward empties the pipe into its destination. The filter, if any, decides what is sent.
func (p *pipe) forward(destination *net.TCPConn, f *filter) {
	for {
		switch s := p.next(); s.move {
		case moveInspect:
			if f == nil {
				p.load(s.data, s.after)
				continue
			}
			p.load(f.pass(s.data))
		case moveSend:
			if _, err := destination.Write(s.data); err != nil {
				p.update(func() { p.deaf, p.missing = true, true })
			}
		case moveAct:
			s.after(s.delivered)
		case moveEnd:
			if rest := f.rest(); len(rest) > 0 {
				p.load(rest, nil)
				continue
			}
			_ = destination.CloseWrite() // the destination may be gone
			return
		default:
			return
		}
	}
}

func (p *pipe) next() step {
	for {
		s := p.look(time.Now())
		if s.move != moveWait {
			return s
		}
		if s.wait == 0 {
			<-p.wake
			continue
		}
		timer := time.NewTimer(s.wait)
		select {
		case <-p.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// look returns the next step.
func (p *pipe) look(now time.Time) step {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return step{move: moveStop}
	}
	// Behind lost bytes nothing may arrive: the connection is about to be reset.
	nowhere := p.shape.blackhole || p.lost || p.deaf
	if nowhere {
		p.swallow()
	}
	switch {
	case p.shape.hold && !p.deaf:
		return step{}
	case len(p.out) > 0:
		return p.send(now)
	case p.after != nil:
		s := step{move: moveAct, after: p.after, delivered: !p.missing}
		p.after = nil
		return s
	case len(p.queue) > 0:
		return p.take(now)
	case !p.ended:
		return step{}
	case nowhere:
		return step{move: moveStop}
	default:
		return step{move: moveEnd}
	}
}

// swallow drops all bytes and keeps the actions behind them. p.mu is held.
func (p *pipe) swallow() {
	if !p.deaf {
		p.counters.swallowed.Add(int64(p.queued))
		p.lost = p.lost || p.queued > 0 || p.ended
	}
	p.missing = p.missing || len(p.out) > 0
	for _, c := range p.queue {
		if p.after == nil && c.after != nil {
			p.after, p.missing = c.after, true
		}
	}
	p.queue, p.out, p.queued = nil, nil, 0
	signal(p.room)
}

// send takes as much of out as the rate allows. p.mu is held.
func (p *pipe) send(now time.Time) step {
	n := len(p.out)
	if rate := p.shape.rate; rate > 0 {
		pause := time.Duration(float64(p.sent) / float64(rate) * float64(time.Second))
		if wait := p.sentAt.Add(pause).Sub(now); wait > 0 {
			return step{wait: wait}
		}
		n = min(n, max(1, rate/piecesPerSecond))
	}
	s := step{move: moveSend, data: p.out[:n]}
	p.out = p.out[n:]
	p.queued -= n
	p.sentAt, p.sent = now, n
	signal(p.room)
	return s
}

// take removes the first chunk when it is due. p.mu is held.
func (p *pipe) take(now time.Time) step {
	first := p.queue[0]
	if wait := first.arrived.Add(p.shape.latency).Sub(now); p.shape.latency > 0 && wait > 0 {
		return step{wait: wait}
	}
	p.queue[0] = chunk{} // for the garbage collector
	p.queue = p.queue[1:]
	p.queued -= len(first.data)
	signal(p.room)
	return step{move: moveInspect, data: first.data, after: first.after}
}

// load makes the filter's output the next bytes to send.
func (p *pipe) load(data []byte, after action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out, p.after, p.missing = data, after, false
	p.queued += len(data)
}
