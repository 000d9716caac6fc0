package measure

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// rawConn is a connection to a NATS server without a client: it writes messages into buffers by hand, sends many in one
// write, and counts acknowledgements.
type rawConn struct {
	conn  net.Conn
	reply string // prefix of the subjects of acknowledgements

	writing sync.Mutex
	mu      sync.Mutex
	waiting map[int]*flight
	next    int
	err     error
	ended   chan struct{}
}

// flight is a group of messages whose acknowledgements are awaited together.
type flight struct {
	number int
	left   int
	air    chan struct{} // gets a place back when all messages are answered
	done   chan error    // gets one value
}

// land ends a flight, once.
func (f *flight) land(err error) {
	f.done <- err
	<-f.air
}

var errRefused = errors.New("the broker refused a message")

// ackWait bounds the time between sending and a flight's last acknowledgement.
const ackWait = 30 * time.Second

func dialWire(ctx context.Context, address string) (*rawConn, error) {
	first, _, _ := strings.Cut(address, ",")
	u, err := url.Parse(first)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	w := &rawConn{conn: conn, reply: "_BENCH." + rand.Text()[:12] + ".", waiting: map[int]*flight{}, ended: make(chan struct{})}
	const hello = `CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"protocol":1,"lang":"go","version":"1","name":"null relay"}`
	if _, err := fmt.Fprintf(conn, "%s\r\nSUB %s* 1\r\nPING\r\n", hello, w.reply); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to NATS: %w", err), conn.Close())
	}
	ready := make(chan struct{})
	go w.read(bufio.NewReaderSize(conn, 64<<10), ready)
	select {
	case <-ready:
		return w, nil
	case <-w.ended:
		return nil, fmt.Errorf("connect to NATS: %w", w.err)
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("connect to NATS: %w", context.Cause(ctx)), w.close())
	}
}

// read handles the server's lines until the connection ends.
func (w *rawConn) read(r *bufio.Reader, ready chan struct{}) {
	defer close(w.ended)
	err := w.readAll(r, ready)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	for _, f := range w.waiting {
		f.land(err)
	}
	w.waiting = map[int]*flight{}
}

func (w *rawConn) readAll(r *bufio.Reader, ready chan struct{}) error {
	for {
		text, err := r.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("read from NATS: %w", err)
		}
		verb, rest, _ := bytes.Cut(bytes.TrimRight(text, "\r\n"), []byte(" "))
		switch string(verb) {
		case "MSG", "HMSG":
			if err := w.acknowledged(r, rest); err != nil {
				return err
			}
		case "PING":
			if err := w.write([]byte("PONG\r\n")); err != nil {
				return err
			}
		case "PONG":
			if ready != nil {
				close(ready)
				ready = nil
			}
		case "-ERR":
			return fmt.Errorf("NATS says %s", rest)
		}
	}
}

// acknowledged takes a message: subject sid [reply] [header bytes] bytes.
func (w *rawConn) acknowledged(r *bufio.Reader, arguments []byte) error {
	fields := strings.Fields(string(arguments))
	if len(fields) < 3 {
		return fmt.Errorf("read from NATS: message of %q", arguments)
	}
	size, err := strconv.Atoi(fields[len(fields)-1])
	if err != nil {
		return fmt.Errorf("read from NATS: %w", err)
	}
	number, err := strconv.Atoi(strings.TrimPrefix(fields[0], w.reply))
	if err != nil {
		return fmt.Errorf("read from NATS: %w", err)
	}
	body, err := r.Peek(size + 2)
	if err != nil {
		return fmt.Errorf("read from NATS: %w", err)
	}
	refused := refusalOf(body[:size])
	if _, err := r.Discard(size + 2); err != nil {
		return fmt.Errorf("read from NATS: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.waiting[number]
	if f == nil {
		return nil
	}
	if f.left--; f.left == 0 || refused != nil {
		delete(w.waiting, number)
		f.land(refused)
	}
	return nil
}

// refusalOf reads an acknowledgement.
func refusalOf(body []byte) error {
	if bytes.HasPrefix(body, []byte(`{"stream":`)) && !bytes.Contains(body, []byte(`"duplicate"`)) {
		return nil
	}
	if json.Valid(body) || len(body) > 0 {
		return fmt.Errorf("%w: %s", errRefused, body)
	}
	return fmt.Errorf("%w: empty answer", errRefused)
}

// flight plans a flight; its subject goes into the messages.
func (w *rawConn) flight() (*flight, []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next++
	return &flight{number: w.next, done: make(chan error, 1)}, strconv.AppendInt([]byte(w.reply), int64(w.next), 10)
}

// expect begins to count the flight's acknowledgements.
func (w *rawConn) expect(f *flight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		f.land(w.err)
		return
	}
	w.waiting[f.number] = f
}

func (f *flight) wait(ctx context.Context) error {
	timer := time.NewTimer(ackWait)
	defer timer.Stop()
	select {
	case err := <-f.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return fmt.Errorf("no acknowledgement within %s", ackWait)
	}
}

func (w *rawConn) write(p []byte) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	if _, err := w.conn.Write(p); err != nil {
		return fmt.Errorf("write to NATS: %w", err)
	}
	return nil
}

func (w *rawConn) close() error {
	err := w.conn.Close()
	<-w.ended
	return err
}
