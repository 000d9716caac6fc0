package chaos_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/chaos"
)

// echo is a server that gives back what it is sent.
func echo(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() { _ = listener.Close(); serving.Wait() })
	return listener.Addr().String()
}

func proxied(t *testing.T) *chaos.Proxy {
	t.Helper()
	p, err := chaos.NewProxy()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func dial(t *testing.T, p *chaos.Proxy, server, address string) net.Conn {
	t.Helper()
	conn, err := chaos.Dialer{Proxy: p.Address(), Server: server}.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// says sends a text and wants it back.
func says(conn net.Conn, text string) error {
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte(text)); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, len(text)))
	return err
}

// A cut breaks the connections to one kind of server, each of them, and lets none through before it is over.
func TestACutBreaksWhatGoesThrough(t *testing.T) {
	t.Parallel()
	p, address := proxied(t), echo(t)
	one, two, other := dial(t, p, "one", address), dial(t, p, "one", address), dial(t, p, "other", address)
	for _, conn := range []net.Conn{one, two, other} {
		if err := says(conn, strings.Repeat("x", 100_000)); err != nil {
			t.Fatal(err)
		}
	}
	cut := p.Cut("one")
	began := make(chan struct{})
	var striking sync.WaitGroup
	striking.Go(func() {
		struck, err := cut.Strike(t.Context(), rand.New(rand.NewPCG(1, 1)))
		if err != nil || !strings.HasPrefix(struck.Text, "cut 2 connections to one") {
			t.Errorf("%q: %v", struck.Text, err)
		}
	})
	striking.Go(func() { // the reset of the first is the begin
		_ = one.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := one.Read(make([]byte, 1)); err == nil {
			t.Error("the first was not cut")
		}
		close(began)
	})
	<-began
	if conn, err := (chaos.Dialer{Proxy: p.Address(), Server: "one"}).Dial("tcp", address); err == nil {
		_ = conn.Close()
		t.Error("a new connection comes through a cut")
	}
	if err := says(two, "x"); err == nil {
		t.Error("the second was not cut")
	}
	if err := says(other, "x"); err != nil {
		t.Errorf("another server's was cut: %v", err)
	}
	striking.Wait()
	if err := says(dial(t, p, "one", address), "x"); err != nil {
		t.Errorf("after the cut: %v", err)
	}
	if _, err := p.Cut("nobody").Strike(t.Context(), rand.New(rand.NewPCG(1, 1))); err == nil {
		t.Error("what nobody is connected to was cut")
	}
}

// A proxy connects nobody but who knows its word, and who dials learns that a server is not there.
func TestAProxyServesWhoKnowsItsWord(t *testing.T) {
	t.Parallel()
	p, address := proxied(t), echo(t)
	_, at, _ := strings.Cut(p.Address(), "@")
	if conn, err := (chaos.Dialer{Proxy: "guess@" + at}).Dial("tcp", address); err == nil {
		_ = conn.Close()
		t.Error("it serves anybody")
	}
	if conn, err := (chaos.Dialer{Proxy: p.Address()}).Dial("tcp", "127.0.0.1:1"); err == nil {
		_ = conn.Close()
		t.Error("a server that is not there was reached")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if conn, err := (chaos.Dialer{Proxy: p.Address()}).DialContext(ctx, "tcp", address); err == nil {
		_ = conn.Close()
		t.Error("it dials after the context's end")
	}
}
