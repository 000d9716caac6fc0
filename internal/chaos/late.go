package chaos

import (
	"bytes"
	"context"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"regexp"
	"slices"
	"time"
)

// ambush breaks the connections of a route in the midst of writes. Of every two the first one loses the write, so that the worker begins
// anew; the second one's write arrives just before the next write that it would fail, or that would fail it.
type ambush struct {
	sent []byte         // the kept writes hold this
	rely *regexp.Regexp // matches the start of a write that relies on an earlier one, with the part that it relies on
	left int            // connections that are still to be broken
	kept *kept
	over chan struct{} // closed when all has arrived
}

type kept struct {
	writes         [][]byte // their starts
	begun, arrived chan struct{}
}

const (
	// lateRounds is the number of late batches in one mishap.
	lateRounds = 3
	// latePatience bounds the wait for them: encrypted connections show nothing.
	latePatience = 10 * time.Second
)

// meet lets kept writes arrive before b, if b relies on the state that they would change, and breaks b's link, if b is awaited. Then b goes
// on when it has become late. False: b is lost.
func (p *Proxy) meet(l *link, b []byte) bool {
	p.mu.Lock()
	a := p.ambushes[l.route]
	if a == nil {
		p.mu.Unlock()
		return true
	}
	var late, own *kept
	// A write that relies on the same as a kept one must not overtake it.
	if a.kept != nil && slices.ContainsFunc(a.kept.writes, func(w []byte) bool { return bytes.Contains(b, w) }) {
		late, a.kept = a.kept, nil
	}
	lost, last := false, a.left == 0
	if late == nil && a.kept == nil && a.left > 0 && bytes.Contains(b, a.sent) {
		if lost = a.left%2 == 0; lost {
			l.reset()
		} else {
			own = &kept{a.rely.FindAll(bytes.Clone(b), -1), make(chan struct{}), make(chan struct{})}
			a.kept, l.kept = own, own
			reset(l.ends[0])
		}
		a.left--
	}
	p.mu.Unlock()
	if late != nil {
		late.arrive()
		if last {
			close(a.over)
		}
	}
	if own != nil {
		<-own.begun
	}
	return !lost
}

// arrive delivers the kept writes to the other end.
func (k *kept) arrive() {
	close(k.begun)
	select {
	case <-k.arrived:
	case <-time.After(requestPatience):
	}
}

// end closes both ends of a link of which one direction has ended; with a kept write, when the server has taken it in.
func (p *Proxy) end(l *link, from net.Conn) {
	p.mu.Lock()
	late := l.kept != nil
	p.mu.Unlock()
	if tcp, is := l.ends[1].(*net.TCPConn); is && late && from == l.ends[0] {
		_ = tcp.CloseWrite()
		return
	}
	if late {
		_, _ = io.Copy(io.Discard, from)
	}
	_ = l.ends[0].Close()
	_ = l.ends[1].Close()
}

// Late breaks a worker's connections to servers of a kind again and again in the midst of writes that hold the text sent. Every other write
// arrives all the same, during a later connection: after the worker's look at its outcome, and just before it writes again on the same state,
// as rely matches. Where connections are encrypted it finds nothing to strike.
func (p *Proxy) Late(crew *Crew, server, sent string, rely *regexp.Regexp) Mishap {
	return Mishap{Kind: "worker's batches late", Strike: func(ctx context.Context, random *mathrand.Rand) (Struck, error) {
		victim := crew.Members()[random.IntN(len(crew.workers))]
		r := route{victim.PID, server}
		a := &ambush{sent: []byte(sent), rely: rely, left: 2 * lateRounds, over: make(chan struct{})}
		p.mu.Lock()
		p.ambushes[r] = a
		p.mu.Unlock()
		select {
		case <-a.over:
		case <-time.After(latePatience):
		case <-ctx.Done():
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.callOffLocked(r)
		text := fmt.Sprintf("%d batches of %s came late", (2*lateRounds-a.left)/2, workerName(victim.Number))
		if a.left == 2*lateRounds {
			text = fmt.Sprintf("no batch of %s was seen to hold back: it wrote none, or its connections are encrypted", workerName(victim.Number))
		}
		return Struck{Text: text, Then: "delivery went on"}, context.Cause(ctx)
	}}
}

// callOffLocked ends an ambush; kept writes arrive now. p.mu is held.
func (p *Proxy) callOffLocked(r route) {
	if a := p.ambushes[r]; a != nil {
		if a.kept != nil {
			close(a.kept.begun)
		}
		delete(p.ambushes, r)
	}
}
