package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
)

// gate stands between the caller and a receiver, at an address that outlives both, and spoils what it is told to.
type gate struct {
	url    string
	client *http.Client
	asked  atomic.Int64

	mu      sync.Mutex
	backend string
	spoil   fault
}

// fault deals with the nth request, from 1: forward brings the receiver's answer, pass writes one to the caller.
type fault func(n int, g *gate, w http.ResponseWriter, r *http.Request, body []byte)

// answer is a response, read completely.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func newGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{client: newClient()}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the caller was killed
		}
		n := int(g.asked.Add(1))
		g.mu.Lock()
		spoil := g.spoil
		g.mu.Unlock()
		if spoil == nil {
			spoil = through
		}
		spoil(n, g, w, r, body)
	}))
	g.url = server.URL
	t.Cleanup(func() {
		g.to("", through)
		server.CloseClientConnections()
		server.Close()
		g.client.CloseIdleConnections()
	})
	return g
}

// to says where the receiver is and what happens from now on.
func (g *gate) to(backend string, spoil fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.backend, g.spoil = backend, spoil
}

func (g *gate) move(backend string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.backend = backend
}

// forward asks the receiver; nil when it did not answer.
func (g *gate) forward(r *http.Request, body []byte) *answer {
	g.mu.Lock()
	backend := g.backend
	g.mu.Unlock()
	request, err := http.NewRequestWithContext(r.Context(), r.Method, backend+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		return nil
	}
	request.Header = r.Header.Clone()
	response, err := g.client.Do(request)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	a := &answer{status: response.StatusCode, header: response.Header}
	if a.body, err = io.ReadAll(response.Body); err != nil {
		return nil
	}
	return a
}

// pass writes an answer, or breaks the connection when there is none.
func (a *answer) pass(w http.ResponseWriter) {
	if a == nil {
		panic(http.ErrAbortHandler)
	}
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}

// through spoils nothing.
func through(_ int, g *gate, w http.ResponseWriter, r *http.Request, body []byte) {
	g.forward(r, body).pass(w)
}

// first lets each of the faults have one request, then spoils nothing.
func first(faults ...fault) fault {
	return func(n int, g *gate, w http.ResponseWriter, r *http.Request, body []byte) {
		if n <= len(faults) {
			faults[n-1](n, g, w, r, body)
			return
		}
		through(n, g, w, r, body)
	}
}

// says answers by itself and does not ask the receiver.
func says(status int, header ...string) fault {
	return func(_ int, _ *gate, w http.ResponseWriter, _ *http.Request, _ []byte) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"from":"the gate"}`)
	}
}

// named answers as the receiver would.
func named(status int) fault {
	return func(n int, g *gate, w http.ResponseWriter, r *http.Request, body []byte) {
		says(status, headerID, r.Header.Get(headerID))(n, g, w, r, body)
	}
}

// raw writes bytes to the connection and closes it.
func raw(text string) fault {
	return func(_ int, _ *gate, w http.ResponseWriter, _ *http.Request, _ []byte) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, text)
	}
}

// swallowed takes the request and never answers.
func swallowed(_ int, _ *gate, _ http.ResponseWriter, r *http.Request, _ []byte) {
	<-r.Context().Done()
}

// unanswered has the call executed and keeps the answer to itself.
func unanswered(_ int, g *gate, _ http.ResponseWriter, r *http.Request, body []byte) {
	g.forward(r, body)
	<-r.Context().Done()
}

// brokenOff has the call executed and gives half of the answer.
func brokenOff(_ int, g *gate, w http.ResponseWriter, r *http.Request, body []byte) {
	a := g.forward(r, body)
	w.Header().Set("Content-Length", "1000")
	w.Header().Set(headerID, r.Header.Get(headerID))
	w.WriteHeader(http.StatusOK)
	if a != nil {
		_, _ = w.Write(a.body)
	}
	panic(http.ErrAbortHandler)
}

// doubled asks the receiver four times at once and passes the last answer on.
func doubled(_ int, g *gate, w http.ResponseWriter, r *http.Request, body []byte) {
	answers := make(chan *answer)
	const copies = 4
	for range copies {
		go func() { answers <- g.forward(r, body) }()
	}
	var last *answer
	for range copies {
		a := <-answers
		if last != nil && a != nil && (a.status != last.status || !bytes.Equal(a.body, last.body)) {
			a = nil // they must be the same
		}
		last = a
	}
	last.pass(w)
}

// held has the call executed, reports it, and passes the answer on when it is released.
func held(executed chan<- struct{}, release <-chan struct{}) fault {
	return func(_ int, g *gate, w http.ResponseWriter, r *http.Request, body []byte) {
		a := g.forward(r, body)
		select {
		case executed <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		select {
		case <-release:
			a.pass(w)
		case <-r.Context().Done():
		}
	}
}

// outrun has a call with the next id executed before this one, as if somebody else used the sender's token.
func outrun(n int, g *gate, w http.ResponseWriter, r *http.Request, body []byte) {
	id, err := strconv.ParseInt(r.Header.Get(headerID), 10, 64)
	if err != nil {
		panic(err)
	}
	other := r.Clone(r.Context())
	other.Header.Set(headerID, strconv.FormatInt(id+1, 10))
	other.Header.Set(headerUUID, uuid.NewString())
	g.forward(other, []byte(`{"account":"nobody","amount":1}`))
	through(n, g, w, r, body)
}
