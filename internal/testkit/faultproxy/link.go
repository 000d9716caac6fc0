package faultproxy

import (
	"context"
	"net"
	"sync"
	"time"
)

const (
	// readSize bounds one read from a connection, in bytes.
	readSize    = 64 << 10
	dialTimeout = 10 * time.Second
)

// conversation follows the two directions of one connection. Without a protocol it is the zero value.
type conversation struct {
	up, down *filter
	end      func() // called when the connection has ended
}

// link is one client's connection and the server's that belongs to it.
type link struct {
	proxy    *Proxy
	client   *net.TCPConn
	up, down *pipe
	talk     conversation
	stopDial context.CancelFunc

	mu     sync.Mutex
	server *net.TCPConn // nil while it is dialled
	over   bool         // reset, or ended
}

// newLink makes a link with the proxy's present faults. proxy.mu is held.
func newLink(p *Proxy, client *net.TCPConn, stopDial context.CancelFunc) *link {
	l := &link{
		proxy: p, client: client, stopDial: stopDial,
		up: newPipe(&p.counters, p.shapes[0]), down: newPipe(&p.counters, p.shapes[1]),
	}
	if p.protocol != nil {
		l.talk = p.protocol(l)
	}
	return l
}

func (l *link) pipes(d Direction) []*pipe {
	var sides []*pipe
	if d&ClientToServer != 0 {
		sides = append(sides, l.up)
	}
	if d&ServerToClient != 0 {
		sides = append(sides, l.down)
	}
	return sides
}

// run joins client and server until both directions have ended.
func (l *link) run(ctx context.Context, target string) {
	if l.talk.end != nil {
		defer l.talk.end()
	}
	server := l.dial(ctx, target)
	if server == nil {
		return
	}
	var directions sync.WaitGroup
	directions.Go(func() { l.up.receive(l.client, nil) })
	directions.Go(func() { l.up.forward(server, l.talk.up) })
	directions.Go(func() { l.down.receive(server, l.talk.down) })
	directions.Go(func() { l.down.forward(l.client, nil) })
	directions.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over { // else it is reset
		l.over = true
		_, _ = l.client.Close(), server.Close() // nobody is there any more
	}
}

// dial returns nil when there is no server, or nobody left to be served.
func (l *link) dial(ctx context.Context, target string) *net.TCPConn {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil {
		if ctx.Err() == nil { // else the test has ended
			l.proxy.counters.failedDials.Add(1)
		}
		l.reset()
		return nil
	}
	server, ok := conn.(*net.TCPConn)
	if !ok {
		_ = conn.Close() // dialling "tcp" never comes here
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over { // reset while it was dialled
		abort(server)
		return nil
	}
	l.server = server
	return server
}

// reset breaks both connections and reports whether they were whole.
func (l *link) reset() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.over = true
	l.up.close()
	l.down.close()
	abort(l.client)
	if l.server != nil {
		abort(l.server)
	}
	return true
}

func (l *link) hangUp() {
	l.down.deafen()
	_ = l.client.CloseWrite() // the client may be gone
}

// abandon resets the client's side and ends the server's behind the bytes that it has already been given: a reset could take them back.
func (l *link) abandon() {
	l.up.finish()
	l.down.deafen()
	abort(l.client)
}

// abort closes with a reset. Errors mean that there is nothing left to break.
func abort(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}
