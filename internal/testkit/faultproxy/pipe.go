package faultproxy

import (
	"net"
	"sync"
	"time"
)

// The bytes that a direction takes in before its source has to wait.
const (
	usualLimit     = 4 << 20
	throttledLimit = 256 << 10
	heldLimit      = 64 << 20
)

// piecesPerSecond cuts a throttled stream.
const piecesPerSecond = 50

// action happens behind the bytes before it: delivered reports whether the server or client got the last of them.
type action func(delivered bool)

// chunk is the result of one read, and the action behind it.
type chunk struct {
	data    []byte
	arrived time.Time
	after   action
}

// pipe is one direction of a link: receive fills it, forward empties it.
type pipe struct {
	counters *counters
	wake     chan struct{} // capacity 1: look again
	room     chan struct{} // capacity 1: there may be room

	mu     sync.Mutex
	shape  shape
	queue  []chunk
	queued int  // bytes in queue and out
	ended  bool // the source sends no more
	deaf   bool // the destination takes no more
	lost   bool // something was swallowed by a blackhole
	closed bool

	out     []byte // inspected, and next to be sent
	after   action // behind out
	missing bool   // a part of the last load was not delivered

	sentAt time.Time // of the last piece, for throttling
	sent   int       // its length
}

func newPipe(c *counters, s shape) *pipe {
	return &pipe{counters: c, shape: s, wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// receive fills the pipe from its source until that ends. The filter, if any, decides what gets in.
func (p *pipe) receive(source *net.TCPConn, f *filter) {
	defer p.end()
	buffer := make([]byte, readSize)
	for p.awaitRoom() {
		n, err := source.Read(buffer)
		data, after := f.pass(buffer[:n])
		p.push(chunk{data: data, arrived: time.Now(), after: after})
		if after != nil {
			return
		}
		if err != nil {
			p.push(chunk{data: f.rest(), arrived: time.Now()})
			return
		}
	}
}

// awaitRoom returns false when the pipe is closed.
func (p *pipe) awaitRoom() bool {
	for {
		p.mu.Lock()
		limit := usualLimit
		switch {
		case p.shape.hold:
			limit = heldLimit
		case p.shape.rate > 0:
			limit = throttledLimit
		}
		full, closed := p.queued >= limit, p.closed
		p.mu.Unlock()
		if closed {
			return false
		}
		if !full {
			return true
		}
		<-p.room
	}
}

func (p *pipe) push(c chunk) {
	if len(c.data) == 0 && c.after == nil {
		return
	}
	p.mu.Lock()
	if !p.ended && !p.closed {
		p.queue = append(p.queue, c)
		p.queued += len(c.data)
	}
	p.mu.Unlock()
	signal(p.wake)
}

// end marks the end of the source, behind everything that it has sent.
func (p *pipe) end() { p.update(func() { p.ended = true }) }

// finish is end for a source that is not read any more, wherever it is.
func (p *pipe) finish() {
	p.update(func() {
		p.ended = true
		p.queue, p.queued = nil, len(p.out)
	})
}

// deafen drops present and coming bytes.
func (p *pipe) deafen() { p.update(func() { p.deaf = true }) }

func (p *pipe) close() { p.update(func() { p.closed = true }) }

func (p *pipe) update(change func()) {
	p.mu.Lock()
	change()
	p.mu.Unlock()
	signal(p.wake)
	signal(p.room)
}

func (p *pipe) hasLost() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// waiting returns the bytes in the pipe, and whether they are held.
func (p *pipe) waiting() (n int, held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queued, p.shape.hold
}

// signal wakes one goroutine, now or when it next waits.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
