package faultproxy_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testkit/faultproxy"
)

func TestBytesPassBothWays(t *testing.T) {
	t.Parallel()
	s := listen(t)
	p := faultproxy.Start(t, s.address)
	c := connect(t, p, s)
	sent := make([]byte, 16<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(sent) // never fails
	failed := make(chan error, 1)
	go func() { // an echo
		_, err := io.Copy(c.server, c.server)
		failed <- errors.Join(err, c.server.CloseWrite())
	}()
	written := make(chan error, 1)
	go func() {
		_, err := c.client.Write(sent)
		written <- errors.Join(err, c.client.CloseWrite())
	}()
	got, err := io.ReadAll(c.client)
	if err := errors.Join(err, <-failed, <-written); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Error("the bytes were changed")
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	s := listen(t)
	p := faultproxy.Start(t, s.address)
	one, other := connect(t, p, s), connect(t, p, s)
	if n := p.Cut(); n != 2 {
		t.Errorf("%d connections were cut", n)
	}
	for _, c := range []pair{one, other} {
		expectReset(t, c.client)
		expectReset(t, c.server)
	}
	again := connect(t, p, s)
	write(t, again.client, "alive")
	expect(t, again.server, "alive")
	if got := p.Counters(); got.Connections != 3 || got.Cut != 2 {
		t.Errorf("counted %s", got)
	}
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	s := listen(t)
	p := faultproxy.Start(t, s.address)
	c := connect(t, p, s)
	p.Refuse(true)
	p.Refuse(true)
	if conn, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("got %v and %v, want a refusal", conn, err)
	}
	write(t, c.client, "alive")
	expect(t, c.server, "alive")
	p.Heal()
	connect(t, p, s)
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	s, gone := listen(t), "127.0.0.1:1"
	p := faultproxy.Start(t, gone)
	if conn, err := net.Dial("tcp", p.Addr()); err == nil { // else the reset came first
		t.Cleanup(func() { conn.Close() })
		limit(t, conn)
		expectReset(t, conn)
	} else if !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
	if got := p.Counters(); got.FailedDials != 1 {
		t.Errorf("counted %s", got)
	}
	p.Retarget(s.address)
	connect(t, p, s)
}

func TestBlackholeOneWay(t *testing.T) {
	t.Parallel()
	s := listen(t)
	p := faultproxy.Start(t, s.address)
	hit, idle := connect(t, p, s), connect(t, p, s)
	p.Blackhole(faultproxy.ClientToServer, true)
	write(t, hit.client, "lost")
	eventually(t, "the bytes are swallowed", func() bool { return p.Counters().SwallowedBytes == 4 })
	write(t, hit.server, "the other way is free")
	expect(t, hit.client, "the other way is free")

	p.Blackhole(faultproxy.ClientToServer, false)
	expectReset(t, hit.client)
	expectReset(t, hit.server)
	write(t, idle.client, "lost nothing")
	expect(t, idle.server, "lost nothing")
}

// A peer that closes behind a partition is not heard of, until the partition ends.
func TestBlackholeSwallowsTheEnd(t *testing.T) {
	t.Parallel()
	s := listen(t)
	p := faultproxy.Start(t, s.address)
	c := connect(t, p, s)
	p.Blackhole(faultproxy.Both, true)
	write(t, c.client, "lost")
	c.client.Close()
	eventually(t, "the bytes are swallowed", func() bool { return p.Counters().SwallowedBytes == 4 })
	write(t, c.server, "to nobody")
	p.Blackhole(faultproxy.Both, false)
	expectReset(t, c.server)
}

func TestHeldBytesArriveThoughTheClientHasGone(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*net.TCPConn) error{
		"closed": (*net.TCPConn).Close,
		"reset":  func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := listen(t)
			p := faultproxy.Start(t, s.address)
			c := connect(t, p, s)
			p.Hold(faultproxy.ClientToServer)
			write(t, c.client, "late")
			write(t, c.server, "not held")
			expect(t, c.client, "not held")
			eventually(t, "the bytes are held", func() bool { return p.Waiting(faultproxy.ClientToServer) == 4 })
			if err := leave(c.client); err != nil {
				t.Fatal(err)
			}
			next := connect(t, p, s)
			write(t, next.client, "too")
			eventually(t, "the bytes are held", func() bool { return p.Waiting(faultproxy.ClientToServer) == 7 })
			p.Release()
			expect(t, c.server, "late")
			expectEnd(t, c.server)
			expect(t, next.server, "too")
			if got := p.Counters().ReleasedBytes; got != 7 {
				t.Errorf("%d bytes were counted as late", got)
			}
		})
	}
}

func TestHoldPresentSparesNewConnections(t *testing.T) {
	t.Parallel()
	s := listen(t)
	p := faultproxy.Start(t, s.address)
	old := connect(t, p, s)
	p.HoldPresent(faultproxy.ClientToServer)
	write(t, old.client, "first written")
	if n := p.HangUp(); n != 1 {
		t.Errorf("%d clients were hung up on", n)
	}
	expectEnd(t, old.client)
	write(t, old.client, ", before the client noticed")
	old.client.Close()

	young := connect(t, p, s)
	write(t, young.client, "first arrived")
	expect(t, young.server, "first arrived")
	p.Release()
	expect(t, old.server, "first written, before the client noticed")
	expectEnd(t, old.server)
}

func TestLatency(t *testing.T) {
	t.Parallel()
	s := listen(t)
	p := faultproxy.Start(t, s.address)
	p.Latency(faultproxy.ServerToClient, 24*time.Hour)
	c := connect(t, p, s)
	write(t, c.server, "tomorrow")
	eventually(t, "the bytes are on their way", func() bool { return p.Waiting(faultproxy.ServerToClient) == 8 })
	for range 50 { // the other way is fast
		write(t, c.client, "now")
		expect(t, c.server, "now")
	}
	if n := p.Waiting(faultproxy.ServerToClient); n != 8 {
		t.Fatalf("%d bytes are on their way, want 8", n)
	}
	p.Latency(faultproxy.ServerToClient, time.Nanosecond)
	expect(t, c.client, "tomorrow")
}

func TestThrottle(t *testing.T) {
	t.Parallel()
	s := listen(t)
	p := faultproxy.Start(t, s.address)
	p.Throttle(faultproxy.ClientToServer, 1)
	c := connect(t, p, s)
	long := strings.Repeat("0123456789", 10_000)
	write(t, c.client, long)
	expect(t, c.server, long[:2])
	for range 50 { // the other way is fast
		write(t, c.server, "now")
		expect(t, c.client, "now")
	}
	if n := p.Waiting(faultproxy.ClientToServer); n < len(long)-int(patience/time.Second) {
		t.Fatalf("%d of %d bytes are on their way", n, len(long))
	}
	p.Throttle(faultproxy.ClientToServer, 10_000_000)
	expect(t, c.server, long[2:])
}

// A destination that takes nothing must not fill the memory: its source has to wait.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	s := listen(t)
	p := faultproxy.Start(t, s.address)
	p.Throttle(faultproxy.ClientToServer, 1)
	c := connect(t, p, s)
	if err := c.client.SetWriteDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	n, err := c.client.Write(make([]byte, 64<<20))
	if err == nil {
		t.Fatalf("all %d bytes were taken", n)
	}
	if waiting := p.Waiting(faultproxy.ClientToServer); waiting > 1<<20 {
		t.Errorf("%d bytes wait in the proxy", waiting)
	}
}

func TestWrongArgumentsFailTheTest(t *testing.T) {
	t.Parallel()
	r := &recorder{TB: t}
	p := faultproxy.Start(r, listen(t).address)
	for name, call := range map[string]func(){
		"direction": func() { p.Hold(0) },
		"negative":  func() { p.Latency(faultproxy.Both, -1) },
		"Throttle":  func() { p.Throttle(faultproxy.Both, -1) },
		"host:port": func() { p.Retarget("nowhere") },
	} {
		before := len(r.said())
		call()
		if said := r.said(); len(said) != before+1 || !strings.Contains(said[before], name) {
			t.Errorf("%s: the failures are %q", name, said)
		}
	}
}
