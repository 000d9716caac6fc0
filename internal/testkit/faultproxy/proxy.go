package faultproxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/loopback"
)

const (
	// startAttempts bounds the replacements of a port that was taken in the meantime.
	startAttempts = 5
	// listenPatience bounds the proxy's wait for its own port after Refuse(false).
	listenPatience = 10 * time.Second
	listenInterval = 10 * time.Millisecond
)

// Proxy joins connections to one server. Its methods may be called from any goroutine.
type Proxy struct {
	t        testing.TB
	address  *net.TCPAddr
	protocol func(*link) conversation // nil: bytes only
	counters counters
	misread  sync.Once // one failure says it

	listening sync.Mutex // held while the port is opened or closed
	running   sync.WaitGroup

	mu       sync.Mutex
	listener *net.TCPListener // nil while connections are refused
	target   string
	shapes   [2]shape // of connections to come
	links    map[*link]struct{}
	closed   bool
}

// Start opens a proxy for the server at this host and port. It ends with the test.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	p := create(t, target)
	p.begin()
	return p
}

func create(t testing.TB, target string) *Proxy {
	t.Helper()
	if _, _, err := net.SplitHostPort(target); err != nil {
		t.Fatalf("faultproxy: the target must be host:port: %v", err)
	}
	return &Proxy{t: t, target: target, links: map[*link]struct{}{}}
}

// begin opens the port and serves it until the test ends.
func (p *Proxy) begin() {
	p.t.Helper()
	var listener *net.TCPListener
	var err error
	for range startAttempts {
		var port int
		if port, err = loopback.FreePort(p.t.Context()); err != nil {
			break
		}
		p.address = &net.TCPAddr{IP: net.ParseIP(loopback.Host), Port: port}
		if listener, err = net.ListenTCP("tcp", p.address); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	if err != nil {
		p.t.Fatalf("faultproxy: listen: %v", err)
	}
	p.serve(listener)
	p.t.Cleanup(p.close)
}

// Addr returns the host and port that clients connect to.
func (p *Proxy) Addr() string { return p.address.String() }

// through returns an address with the proxy in the place of its server.
func (p *Proxy) through(address *url.URL) string {
	changed := *address
	changed.Host = p.Addr()
	return changed.String()
}

// Retarget sends new connections to another host and port. Present ones stay where they are: Cut moves them.
func (p *Proxy) Retarget(target string) {
	p.t.Helper()
	if _, _, err := net.SplitHostPort(target); err != nil {
		p.t.Errorf("faultproxy: the target must be host:port: %v", err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Refuse closes the port, so that new connections are refused, or opens it again. Connections there are live on.
func (p *Proxy) Refuse(refuse bool) {
	p.t.Helper()
	p.listening.Lock()
	defer p.listening.Unlock()
	p.mu.Lock()
	listener, closed := p.listener, p.closed
	if refuse {
		p.listener = nil
	}
	p.mu.Unlock()
	switch {
	case closed:
	case refuse && listener != nil:
		_ = listener.Close() // it can only be closed already
	case !refuse && listener == nil:
		again, err := p.listenAgain()
		if err != nil {
			p.t.Errorf("faultproxy: open the port again: %v", err)
			return
		}
		p.serve(again)
	}
}

// listenAgain waits out a probe by loopback.FreePort in another process, which takes a port for a moment.
func (p *Proxy) listenAgain() (*net.TCPListener, error) {
	ctx, cancel := context.WithTimeout(context.Background(), listenPatience)
	defer cancel()
	ticker := time.NewTicker(listenInterval)
	defer ticker.Stop()
	for {
		listener, err := net.ListenTCP("tcp", p.address)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return listener, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another program took it: %w", err)
		case <-ticker.C:
		}
	}
}

func (p *Proxy) serve(listener *net.TCPListener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener = listener
	p.running.Go(func() {
		for {
			client, err := listener.AcceptTCP()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				p.t.Errorf("faultproxy: accept: %v", err)
				return
			}
			p.open(client)
		}
	})
}

func (p *Proxy) open(client *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil || p.closed { // refused after it was accepted
		abort(client)
		return
	}
	p.counters.connections.Add(1)
	ctx, cancel := context.WithCancel(context.Background())
	l := newLink(p, client, cancel)
	p.links[l] = struct{}{}
	target := p.target
	p.running.Go(func() {
		defer cancel()
		l.run(ctx, target)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	})
}

func (p *Proxy) close() {
	p.Refuse(true)
	p.mu.Lock()
	p.closed = true
	for l := range p.links {
		l.reset()
		l.stopDial()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// unreadable reports a stream that its protocol cannot explain.
func (p *Proxy) unreadable(name string, err error) {
	p.misread.Do(func() { p.t.Errorf("faultproxy: a connection cannot be read as %s: %v", name, err) })
}

// parseTarget takes the server out of a URL. The error does not quote the URL, which may hold a password.
func parseTarget(address string, defaultPort int, schemes ...string) (*url.URL, string, error) {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Hostname() == "" {
		return nil, "", fmt.Errorf("the address must be a URL of one server such as %s://host:%d", schemes[0], defaultPort)
	}
	for _, scheme := range schemes {
		if parsed.Scheme != scheme {
			continue
		}
		port := cmp.Or(parsed.Port(), strconv.Itoa(defaultPort))
		return parsed, net.JoinHostPort(parsed.Hostname(), port), nil
	}
	return nil, "", fmt.Errorf("the address begins with %q, must begin with %s://", parsed.Scheme, schemes[0])
}
