package faultproxy

import "time"

// Direction is the way that bytes take.
type Direction uint8

const (
	// ClientToServer is the way of requests.
	ClientToServer Direction = 1 << iota
	// ServerToClient is the way of answers.
	ServerToClient
	// Both is both ways.
	Both = ClientToServer | ServerToClient
)

// shape has the faults of one direction of a connection.
type shape struct {
	blackhole bool
	hold      bool
	latency   time.Duration
	rate      int // bytes per second, 0 for no limit
}

// Cut resets all connections, to both sides, and returns their number. Bytes that wait in the proxy are lost.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for l := range p.links {
		if l.reset() {
			n++
		}
	}
	p.counters.cut.Add(int64(n))
	return n
}

// HangUp ends all streams toward the clients, as a server does that closes. The clients' bytes go on to the server, until they close; the
// server's are dropped. It returns the number of connections.
func (p *Proxy) HangUp() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.hangUp()
	}
	p.counters.hungUp.Add(int64(len(p.links)))
	return len(p.links)
}

// Blackhole swallows the bytes of this direction, the end of the stream included. Switching it off resets the connections that lost
// something.
func (p *Proxy) Blackhole(d Direction, on bool) {
	p.t.Helper()
	if !p.valid(d) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change(d, func(s *shape) { s.blackhole = on })
	if on {
		return
	}
	for l := range p.links {
		for _, side := range l.pipes(d) {
			if side.hasLost() && l.reset() {
				p.counters.cut.Add(1)
			}
		}
	}
}

// Hold keeps the bytes of this direction back, up to 64 MiB per connection, until Release.
func (p *Proxy) Hold(d Direction) {
	p.t.Helper()
	p.ask(d, p.change, func(s *shape) { s.hold = true })
}

// HoldPresent is Hold for the connections there are. New ones are not held.
func (p *Proxy) HoldPresent(d Direction) {
	p.t.Helper()
	p.ask(d, p.changePresent, func(s *shape) { s.hold = true })
}

// Release ends Hold and HoldPresent in both directions and delivers the kept bytes.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		for _, side := range l.pipes(Both) {
			if n, held := side.waiting(); held {
				p.counters.released.Add(int64(n))
			}
		}
	}
	p.change(Both, func(s *shape) { s.hold = false })
}

// Latency delays everything in this direction by d. Zero ends it, also for bytes on their way.
func (p *Proxy) Latency(d Direction, latency time.Duration) {
	p.t.Helper()
	if latency < 0 {
		p.t.Errorf("faultproxy: Latency: %s is negative", latency)
		return
	}
	p.ask(d, p.change, func(s *shape) { s.latency = latency })
}

// Throttle lets this many bytes per second pass in this direction, on every connection. Zero ends it.
func (p *Proxy) Throttle(d Direction, bytesPerSecond int) {
	p.t.Helper()
	if bytesPerSecond < 0 {
		p.t.Errorf("faultproxy: Throttle: %d is negative", bytesPerSecond)
		return
	}
	p.ask(d, p.change, func(s *shape) { s.rate = bytesPerSecond })
}

// Heal ends every manual fault: it opens the port and switches off blackholes, holds, latency and throttling. Triggers
// stay armed, and messages that are dropped stay so.
func (p *Proxy) Heal() {
	p.t.Helper()
	p.Blackhole(Both, false)
	p.Release()
	p.Latency(Both, 0)
	p.Throttle(Both, 0)
	p.Refuse(false)
}

// Waiting returns the bytes in the proxy on their way in this direction, over all connections.
func (p *Proxy) Waiting(d Direction) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	total := 0
	for l := range p.links {
		for _, side := range l.pipes(d) {
			n, _ := side.waiting()
			total += n
		}
	}
	return total
}

// ask changes a caller's direction, by change or changePresent.
func (p *Proxy) ask(d Direction, change func(Direction, func(*shape)), set func(*shape)) {
	p.t.Helper()
	if p.valid(d) {
		p.mu.Lock()
		defer p.mu.Unlock()
		change(d, set)
	}
}

// change alters the connections there are and those to come. p.mu is held.
func (p *Proxy) change(d Direction, set func(*shape)) {
	for i := range p.shapes {
		if d&(1<<i) != 0 {
			set(&p.shapes[i])
		}
	}
	p.changePresent(d, set)
}

func (p *Proxy) changePresent(d Direction, set func(*shape)) {
	for l := range p.links {
		for _, side := range l.pipes(d) {
			side.update(func() { set(&side.shape) })
		}
	}
}

func (p *Proxy) valid(d Direction) bool {
	p.t.Helper()
	if d == 0 || d > Both {
		p.t.Errorf("faultproxy: %d is no direction: use ClientToServer, ServerToClient or Both", d)
		return false
	}
	return true
}
