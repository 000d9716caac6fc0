package meilitest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Fault is what goes wrong with one request.
type Fault struct {
	// Status answers without taking the request; RetryAfter, in seconds, goes with it.
	Status     int
	RetryAfter int
	// Break breaks the connection without taking the request, BreakAfter after taking it.
	Break, BreakAfter bool
	// Silent takes nothing and answers nothing until the client gives up.
	Silent bool
	// FailTask takes the request, and its task fails with an internal error.
	FailTask bool
	// SlowTask delays the task.
	SlowTask time.Duration
}

// Server is a running server.
type Server struct {
	// URL is its address, Key the key that it wants.
	URL, Key string

	mu       sync.Mutex
	fault    func(*http.Request) Fault
	indexes  map[string]*index
	tasks    []*taskState
	queue    chan *taskState
	requests int
}

// index is documents by their primary key.
type index struct {
	primaryKey string
	documents  map[string]map[string]any
	settings   map[string]any
}

// taskState is a task and what it does.
type taskState struct {
	UID        int        `json:"uid"`
	IndexUID   *string    `json:"indexUid"`
	Status     string     `json:"status"`
	Type       string     `json:"type"`
	Error      *apiError  `json:"error"`
	EnqueuedAt time.Time  `json:"enqueuedAt"`
	StartedAt  *time.Time `json:"startedAt"`
	FinishedAt *time.Time `json:"finishedAt"`

	slow time.Duration
	work func() *apiError
}

// Start runs a server until the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{Key: "a-key-for-tests", indexes: map[string]*index{}, queue: make(chan *taskState, 100_000)}
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = server.URL
	var worker sync.WaitGroup
	stop := make(chan struct{})
	worker.Go(func() { s.process(stop) })
	t.Cleanup(func() {
		close(stop)
		server.CloseClientConnections()
		server.Close()
		worker.Wait()
	})
	return s
}

// SetFault decides about every request from now on; nil means that nothing goes wrong.
func (s *Server) SetFault(fault func(*http.Request) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Requests is how many requests came.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// process works on the tasks, one after the other.
func (s *Server) process(stop <-chan struct{}) {
	for {
		var t *taskState
		select {
		case <-stop:
			return
		case t = <-s.queue:
		}
		s.mu.Lock()
		began := time.Now()
		t.Status, t.StartedAt = "processing", &began
		s.mu.Unlock()
		if t.slow > 0 {
			select {
			case <-stop:
				return
			case <-time.After(t.slow):
			}
		}
		s.mu.Lock()
		t.Error = t.work()
		ended := time.Now()
		t.Status, t.FinishedAt = "succeeded", &ended
		if t.Error != nil {
			t.Status = "failed"
		}
		s.mu.Unlock()
	}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.requests++
	var f Fault
	if s.fault != nil {
		f = s.fault(r)
	}
	s.mu.Unlock()
	switch {
	case f.Silent:
		<-r.Context().Done()
		return
	case f.Break:
		panic(http.ErrAbortHandler)
	case f.Status != 0:
		if f.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		}
		http.Error(w, "the proxy in front of it says no", f.Status)
		return
	}
	if e := s.authorize(r); e != nil {
		reply(w, e.status, e)
		return
	}
	s.mu.Lock()
	status, answer := s.route(r, body, f)
	encoded, err := json.Marshal(answer)
	s.mu.Unlock()
	if err != nil {
		panic(err)
	}
	if f.BreakAfter {
		panic(http.ErrAbortHandler)
	}
	reply(w, status, json.RawMessage(encoded))
}

func (s *Server) authorize(r *http.Request) *apiError {
	if r.URL.Path == "/health" {
		return nil
	}
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !ok:
		return refuse(http.StatusUnauthorized, "auth", "missing_authorization_header",
			"The Authorization header is missing. It must use the bearer authorization method.")
	case key != s.Key:
		return refuse(http.StatusForbidden, "auth", "invalid_api_key", "The provided API key is invalid.")
	}
	return nil
}

func reply(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client is gone
}

// apiError is an error as the API writes it.
type apiError struct {
	Message string `json:"message"`
	Code    string `json:"code"`
	Type    string `json:"type"`
	Link    string `json:"link"`

	status int
}

func refuse(status int, kind, code, message string) *apiError {
	return &apiError{Message: message, Code: code, Type: kind, Link: "https://docs.meilisearch.com/errors#" + code, status: status}
}
