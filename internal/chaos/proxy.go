package chaos

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider/internal/loopback"
)

// Proxy stands between the workers and their servers, whichever these are: a connection begins with its target. Names in certificates,
// several addresses, and servers that name others stay as they are. It serves only clients with its word.
type Proxy struct {
	listener net.Listener
	word     string
	running  sync.WaitGroup

	mu       sync.Mutex
	away     map[string]bool         // the kinds of servers that cannot be reached
	held     map[route]chan struct{} // closed when bytes go on
	ambushes map[route]*ambush
	links    map[*link]bool
	over     bool
}

type link struct {
	route
	ends [2]net.Conn // the worker's, the server's
	kept *kept       // its last write when the worker's end was broken
}

// route is from a process to a kind of server.
type route struct {
	process int
	server  string
}

// request is the line with which a connection to the proxy begins.
type request struct {
	Word, Server, Network, Address string
	Process                        int
}

const (
	// mostRequested bounds that line, in bytes.
	mostRequested = 4096
	// requestPatience bounds the wait for the request, and for the answer.
	requestPatience = 10 * time.Second
	// leastAway and mostAway bound the time without a server.
	leastAway, mostAway = 200 * time.Millisecond, 1500 * time.Millisecond
)

// betweenHolds is the time between the holding up of two kinds of servers.
const betweenHolds = time.Second

// NewProxy listens on the loopback interface. Close ends it.
func NewProxy() (*Proxy, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback.Host, "0"))
	if err != nil {
		return nil, fmt.Errorf("open the proxy: %w", err)
	}
	p := &Proxy{listener: listener, word: rand.Text(), away: map[string]bool{}, held: map[route]chan struct{}{}, ambushes: map[route]*ambush{}, links: map[*link]bool{}}
	p.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.serve(client) })
		}
	})
	return p, nil
}

// Address returns Dialer's address of the proxy. It holds the word: keep it from others.
func (p *Proxy) Address() string { return p.word + "@" + p.listener.Addr().String() }

// Close breaks every connection.
func (p *Proxy) Close() {
	_ = p.listener.Close() // it can only be closed already
	p.mu.Lock()
	p.over = true
	for l := range p.links {
		l.reset()
	}
	for r := range p.held {
		p.releaseLocked(r)
	}
	for r := range p.ambushes {
		p.callOffLocked(r)
	}
	p.mu.Unlock()
	p.running.Wait()
}

func (p *Proxy) serve(client net.Conn) {
	l := &link{ends: [2]net.Conn{client, client}}
	if !p.enter(l) {
		return
	}
	defer p.leave(l)
	_ = client.SetDeadline(time.Now().Add(requestPatience))
	var asked request
	line, err := bufio.NewReaderSize(io.LimitReader(oneByOne{client}, mostRequested), 16).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &asked) != nil || asked.Word != p.word {
		return
	}
	server, err := (&net.Dialer{Timeout: requestPatience}).Dial(asked.Network, asked.Address)
	if err != nil || !p.join(l, asked, server) {
		return
	}
	p.await(l.route)
	if _, err := client.Write([]byte{'\n'}); err != nil {
		return
	}
	_ = client.SetDeadline(time.Time{})
	var directions sync.WaitGroup
	for _, way := range []struct {
		to   io.Writer
		from net.Conn
	}{{patient{server, p, l}, client}, {client, server}} {
		directions.Go(func() {
			_, _ = io.Copy(way.to, way.from) // either end may go
			p.end(l, way.from)
		})
	}
	directions.Wait()
	if l.kept != nil {
		close(l.kept.arrived)
	}
}

// oneByOne reads single bytes, so that nothing behind the line is taken.
type oneByOne struct{ io.Reader }

func (r oneByOne) Read(b []byte) (int, error) { return r.Reader.Read(b[:1]) }

// patient writes when its process's bytes are not held back.
type patient struct {
	net.Conn
	proxy *Proxy
	link  *link
}

func (w patient) Write(b []byte) (int, error) {
	w.proxy.await(w.link.route)
	if !w.proxy.meet(w.link, b) {
		return 0, net.ErrClosed
	}
	return w.Conn.Write(b)
}

// ReadFrom keeps io.Copy from passing Write by.
func (w patient) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{w}, r)
}

// await returns when a route's bytes may go on.
func (p *Proxy) await(r route) {
	p.mu.Lock()
	held := p.held[r]
	p.mu.Unlock()
	if held != nil {
		<-held
	}
}

func (p *Proxy) enter(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		l.reset()
		return false
	}
	p.links[l] = true
	return true
}

// join gives a link its server; false: the server cannot be reached now.
func (p *Proxy) join(l *link, asked request, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.route, l.ends[1] = route{asked.Process, asked.Server}, server
	return !p.over && !p.away[asked.Server]
}

func (p *Proxy) leave(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
	_ = l.ends[0].Close()
	_ = l.ends[1].Close()
}

// reset breaks both ends; bytes on their way are lost.
func (l *link) reset() {
	for _, end := range l.ends {
		reset(end)
	}
}

func reset(end net.Conn) {
	if tcp, is := end.(*net.TCPConn); is {
		_ = tcp.SetLinger(0)
	}
	_ = end.Close()
}

// part breaks all connections to servers of a kind, and lets none through until it is called otherwise. It returns their number.
func (p *Proxy) part(server string, away bool) (broken int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away[server] = away; !away {
		return 0
	}
	for l := range p.links {
		if l.server == server {
			l.reset()
			broken++
		}
	}
	return broken
}

// Cut resets every connection to servers of a kind, as Dialer names it, with all in flight, and lets none through for a while.
func (p *Proxy) Cut(server string) Mishap {
	return Mishap{Kind: server + " cut off", Strike: func(ctx context.Context, random *mathrand.Rand) (Struck, error) {
		away := leastAway + time.Duration(random.Int64N(int64(mostAway-leastAway)))
		broken := p.part(server, true)
		defer p.part(server, false)
		struck := Struck{Text: fmt.Sprintf("cut %d connections to %s for %.1f s", broken, server, away.Seconds()), Then: "delivery went on"}
		if broken == 0 {
			return struck, errors.New("the workers have no connection that could be cut")
		}
		select {
		case <-time.After(away):
			return struck, nil
		case <-ctx.Done():
			return struck, context.Cause(ctx)
		}
	}}
}

// Hold keeps a worker's bytes back until the others have its partitions, and lets them go on: they come too late. Answers pass. The kinds of
// servers go one after the other, so that the last ones make it send to the first.
func (p *Proxy) Hold(crew *Crew, servers ...string) Mishap {
	return Mishap{Kind: "worker's network held", Strike: func(ctx context.Context, random *mathrand.Rand) (Struck, error) {
		victim := crew.Members()[random.IntN(len(crew.workers))]
		struck := Struck{
			Text: "held back what " + workerName(victim.Number) + " sends", Then: "its partitions moved", Over: movedFrom(victim),
			Mend: func(context.Context) error {
				p.mu.Lock()
				defer p.mu.Unlock()
				for _, server := range servers {
					p.releaseLocked(route{victim.PID, server})
				}
				return nil
			},
		}
		for n, server := range servers {
			if n > 0 {
				select {
				case <-time.After(betweenHolds):
				case <-ctx.Done():
					return struck, errors.Join(context.Cause(ctx), struck.Mend(ctx))
				}
			}
			p.mu.Lock()
			p.held[route{victim.PID, server}] = make(chan struct{})
			p.mu.Unlock()
		}
		return struck, nil
	}}
}

// releaseLocked lets the bytes of a route go on. p.mu is held.
func (p *Proxy) releaseLocked(r route) {
	if held := p.held[r]; held != nil {
		close(held)
		delete(p.held, r)
	}
}

// Dialer connects by way of the proxy at that address, to servers of that kind. Its methods may be called from any goroutine.
type Dialer struct{ Proxy, Server string }

// Dial implements nats.CustomDialer.
func (d Dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialContext is net.Dialer's.
func (d Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	word, at, _ := strings.Cut(d.Proxy, "@")
	conn, err := (&net.Dialer{Timeout: requestPatience}).DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, fmt.Errorf("reach the proxy: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(requestPatience))
	asked, err := json.Marshal(request{word, d.Server, network, address, os.Getpid()})
	if err == nil {
		_, err = conn.Write(append(asked, '\n'))
	}
	if err == nil {
		_, err = io.ReadFull(conn, make([]byte, 1))
	}
	if err = cmp.Or(err, context.Cause(ctx)); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("reach %s: %w", address, err)
	}
	return conn, conn.SetDeadline(time.Time{})
}
