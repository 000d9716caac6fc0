package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/postrider/postrider/inbox"
)

// server is what the commands talk to: an embedded index has room for one process. It listens on loopback and asks nobody
// who they are; a real program would put it behind its own login.
type server struct {
	syncer *syncer
	box    *inbox.Inbox
	busy   chan struct{} // holds one token: one repair or reindex at a time
}

func newServer(s *syncer, box *inbox.Inbox) *server {
	return &server{syncer: s, box: box, busy: make(chan struct{}, 1)}
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /search", s.search)
	mux.HandleFunc("GET /check", s.check)
	mux.HandleFunc("POST /repair", s.alone(s.repair))
	mux.HandleFunc("POST /reindex", s.alone(s.reindex))
	mux.HandleFunc("GET /parked", s.parked)
	mux.HandleFunc("POST /requeue", s.requeue)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") != "" { // a page in some browser
			http.Error(w, "not for browsers", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// alone refuses a second repair or reindex at the same time.
func (s *server) alone(work http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.busy <- struct{}{}:
			defer func() { <-s.busy }()
			work(w, r)
		default:
			http.Error(w, "a repair or reindex is under way", http.StatusConflict)
		}
	}
}

func (s *server) search(w http.ResponseWriter, r *http.Request) {
	limit := 20
	if text := r.URL.Query().Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > 1000 {
			http.Error(w, "limit must be 1 to 1000", http.StatusBadRequest)
			return
		}
	}
	found, err := s.syncer.index.search(r.Context(), r.URL.Query().Get("q"), limit)
	respond(w, found, err)
}

func settleOf(r *http.Request) (time.Duration, error) {
	text := r.URL.Query().Get("settle")
	if text == "" {
		return 0, nil
	}
	settle, err := time.ParseDuration(text)
	if err != nil || settle < 0 || settle > 10*time.Minute {
		return 0, errors.New("settle must be 0s to 10m")
	}
	return settle, nil
}

func (s *server) check(w http.ResponseWriter, r *http.Request) {
	settle, err := settleOf(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	found, err := s.syncer.check(r.Context(), s.syncer.index, settle)
	respond(w, found, err)
}

func (s *server) repair(w http.ResponseWriter, r *http.Request) {
	settle, err := settleOf(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	found, err := s.syncer.repair(r.Context(), s.syncer.index, settle)
	respond(w, found, err)
}

// reindex answers with a line per step, and "done" or "error: …" as the last one.
func (s *server) reindex(w http.ResponseWriter, r *http.Request) {
	flush := http.NewResponseController(w)
	say := func(format string, args ...any) {
		fmt.Fprintf(w, format+"\n", args...)
		_ = flush.Flush() // whoever reads is gone; the context ends then
	}
	if err := s.syncer.reindex(r.Context(), say); err != nil {
		say("error: %v", err)
		return
	}
	say("done")
}

// parkedMessage is a document that waits for the index.
type parkedMessage struct {
	Document string `json:"document"`
	Event    string `json:"event"`
	State    string `json:"state"`
	Attempts int    `json:"attempts"`
	Reason   string `json:"reason"`
}

func (s *server) parked(w http.ResponseWriter, r *http.Request) {
	list := []parkedMessage{}
	for _, state := range []inbox.Status{inbox.Failed, inbox.Dead} {
		found, err := s.box.Parked(r.Context(), inbox.ParkedQuery{State: state, Limit: 1000})
		if err != nil {
			respond(w, nil, err)
			return
		}
		for _, p := range found {
			id, _ := documentOf(p.Stream)
			list = append(list, parkedMessage{id, p.EventID.String(), p.State.String(), p.Attempts, p.Reason})
		}
	}
	respond(w, list, nil)
}

func (s *server) requeue(w http.ResponseWriter, r *http.Request) {
	n, err := s.box.Requeue(r.Context())
	respond(w, map[string]int{"requeued": n}, err)
}

func respond(w http.ResponseWriter, value any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // whoever asked is gone
}

// closed takes the error of a server that was asked to end for none.
func closed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// serve serves until the context ends.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(server.Shutdown(late), closed(<-ended))
}
