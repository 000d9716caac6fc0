package ui_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/ui"
)

// pipes is a listener on connections that hold nothing: what is written waits
// until it is read.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

type pipeConn struct{ net.Conn }

// LocalAddr has the handler take the connection for one to a loopback address.
func (pipeConn) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return pipeConn{c}, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error { close(p.done); return nil }

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return pipeConn{}.LocalAddr() }

// open asks for the event stream and reads no further than the header.
func (p *pipes) open(t *testing.T) (net.Conn, *http.Response) {
	t.Helper()
	ours, theirs := net.Pipe()
	p.conns <- theirs
	if _, err := io.WriteString(ours, "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(ours), nil)
	if err != nil {
		t.Fatal(err)
	}
	return ours, response
}

// A reader that stops reading loses its stream, and its place is free for
// another. A quiet one keeps it: comments come in between.
func TestAReaderThatStopsLosesItsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		handler, err := ui.NewHandler(ui.Options{Source: always(cluster(4)), MaxStreams: 1})
		if err != nil {
			t.Fatal(err)
		}
		listener := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		server := &http.Server{Handler: handler, ReadTimeout: time.Second, WriteTimeout: time.Second}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(listener) }()
		defer func() {
			handler.CloseStreams()
			_ = server.Close() // the listener's error is of no interest
			if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		}()
		first, response := listener.open(t)
		defer first.Close()
		if response.StatusCode != http.StatusOK {
			t.Fatalf("the first stream: %d", response.StatusCode)
		}
		second, response := listener.open(t)
		if response.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("a second stream: %d", response.StatusCode)
		}
		second.Close()
		<-time.After(12 * time.Second) // longer than one write may take
		third, response := listener.open(t)
		defer third.Close()
		if response.StatusCode != http.StatusOK {
			t.Fatalf("the place is not free: %d", response.StatusCode)
		}
		// It outlives the server's timeouts while it is read.
		lines, until := bufio.NewReader(response.Body), time.Now().Add(time.Minute)
		for time.Now().Before(until) {
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	})
}
