package ui

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// warnAgain is the least time between two warnings about closed connections.
const warnAgain = time.Minute

// connections bounds the open connections, in all and from one address, since a relay needs the process's descriptors, too. A new one evicts
// the one that has waited longest, between requests or for a whole first one, so that health checks get through. While all serve requests a
// new one is closed.
type connections struct {
	net.Listener

	most, mostFrom int
	log            *slog.Logger

	mu     sync.Mutex
	open   map[*connection]bool
	from   map[string]int
	warned time.Time
}

// connection is an open one.
type connection struct {
	net.Conn

	of      *connections
	from    string
	serving int       // requests under way
	since   time.Time // when it was opened, or last answered
}

func newConnections(listener net.Listener, most, mostFrom int, log *slog.Logger) *connections {
	return &connections{Listener: listener, most: most, mostFrom: mostFrom, log: log, open: map[*connection]bool{}, from: map[string]int{}}
}

func (l *connections) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &connection{Conn: conn, of: l, from: peerOf(conn.RemoteAddr().String())}
		evicted, admitted := l.admit(c)
		if evicted != nil {
			_ = evicted.Conn.Close() // its server notices
		}
		if admitted {
			return c, nil
		}
		_ = conn.Close()
	}
}

// admit adds a connection, and returns the one to evict for it.
func (l *connections) admit(c *connection) (evicted *connection, admitted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	full, fullFrom := len(l.open) >= l.most, l.from[c.from] >= l.mostFrom
	if full || fullFrom {
		if time.Since(l.warned) >= warnAgain {
			l.warned = time.Now()
			l.log.Warn("monitor: too many connections; those that wait longest are closed", logCount, len(l.open), logRemote, c.from)
		}
		for o := range l.open {
			if o.serving == 0 && (!fullFrom || o.from == c.from) && (evicted == nil || o.since.Before(evicted.since)) {
				evicted = o
			}
		}
		if evicted == nil {
			return nil, false
		}
		l.removeLocked(evicted)
	}
	c.since = time.Now()
	l.open[c] = true
	l.from[c.from]++
	return evicted, true
}

func (l *connections) removeLocked(c *connection) {
	if !l.open[c] {
		return
	}
	delete(l.open, c)
	if l.from[c.from]--; l.from[c.from] == 0 {
		delete(l.from, c.from)
	}
}

func (c *connection) Close() error {
	c.of.mu.Lock()
	c.of.removeLocked(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite lets the server end its side first: a client that still sends can then read the answer.
func (c *connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (c *connection) serve(requests int) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.serving += requests
	c.since = time.Now()
}

type connectionKey struct{}

// connected stores the connection in its requests' contexts; it is a server's ConnContext.
func connected(ctx context.Context, conn net.Conn) context.Context {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, conn)
}

// serving keeps connections from eviction while they answer a request.
func serving(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connectionKey{}).(*connection); ok {
			c.serve(1)
			defer c.serve(-1)
		}
		next.ServeHTTP(w, r)
	})
}
