package faultproxy_test

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testkit/faultproxy"
)

// server is the far end of a proxy: it hands its connections to the test.
type server struct {
	address string
	conns   chan *net.TCPConn
}

func listen(t *testing.T) *server {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{address: listener.Addr().String(), conns: make(chan *net.TCPConn, 16)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.AcceptTCP()
			if err != nil {
				return
			}
			s.conns <- conn
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-ended
	})
	return s
}

// pair is both ends of one connection through a proxy.
type pair struct{ client, server *net.TCPConn }

func connect(t *testing.T, p *faultproxy.Proxy, s *server) pair {
	t.Helper()
	client := dial(t, p)
	select {
	case conn := <-s.conns:
		t.Cleanup(func() { conn.Close() })
		limit(t, conn)
		return pair{client, conn}
	case <-deadline(t).Done():
		t.Fatal("the connection did not reach the server")
		return pair{}
	}
}

func dial(t *testing.T, p *faultproxy.Proxy) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	client, ok := conn.(*net.TCPConn)
	if !ok {
		t.Fatalf("got a %T", conn)
	}
	t.Cleanup(func() { client.Close() })
	limit(t, client)
	return client
}

// limit keeps a broken proxy from hanging the test.
func limit(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Fatalf("read %q and %v, want %q", got, err, want)
	}
}

// expectEnd wants the end of the stream, and nothing before it.
func expectEnd(t *testing.T, conn net.Conn) {
	t.Helper()
	if n, err := conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Fatalf("read %d bytes and %v, want the end of the stream", n, err)
	}
}

// expectReset wants a reset, and nothing before it.
func expectReset(t *testing.T, conn net.Conn) {
	t.Helper()
	if n, err := conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("read %d bytes and %v, want a reset", n, err)
	}
}
