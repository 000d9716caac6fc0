package ui_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/ui"
)

// scripted is a source whose answers a test decides; it counts the reads.
type scripted struct {
	reads atomic.Int64
	next  func(ctx context.Context) (ui.Snapshot, error)
	// unread is the error with which the history of ownership is not read.
	unread error
}

func (s *scripted) Snapshot(ctx context.Context) (ui.Snapshot, error) {
	s.reads.Add(1)
	return s.next(ctx)
}

// Ownership implements ui.Source.
func (s *scripted) Ownership(context.Context, lease.HistoryQuery) (lease.History, error) {
	return lease.History{}, s.unread
}

func always(snapshot ui.Snapshot) *scripted {
	return &scripted{next: func(context.Context) (ui.Snapshot, error) { return snapshot, nil }}
}

func workerID(n int) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("0199a2f0-0000-7000-8000-%012x", n*0x1a2b3c))
}

// cluster is three workers, one of them draining and one stale, and as many
// partitions as asked for, with every mark on at least one of them.
func cluster(partitions int) ui.Snapshot {
	at := time.Date(2026, 3, 4, 12, 34, 20, 0, time.UTC)
	snapshot := ui.Snapshot{At: at, CountedAt: at}
	states := []ui.WorkerState{ui.WorkerActive, ui.WorkerActive, ui.WorkerDraining, ui.WorkerStale}
	for i, state := range states {
		age := time.Duration(i+1) * 700 * time.Millisecond
		left := 10*time.Second - age
		if state == ui.WorkerStale {
			left, age = -14*time.Second, 24*time.Second
		}
		snapshot.Workers = append(snapshot.Workers, ui.Worker{
			ID: workerID(i + 1), Hostname: fmt.Sprintf("relay-%d.example.net", i), PID: 4100 + i, Version: "1.2.3", State: state,
			StartedAt: at.Add(-time.Duration(i+1) * 97 * time.Minute), HeartbeatUntil: at.Add(left),
			HeartbeatLeft: left, HeartbeatAge: &age,
		})
	}
	for i := range 187 {
		snapshot.Seconds = append(snapshot.Seconds, ui.Second{At: at.Add(time.Duration(i-187) * time.Second), Published: int64(900 + i*i*37%400)})
	}
	for n := range partitions {
		snapshot.Partitions = append(snapshot.Partitions, testPartition(at, n, snapshot.Workers))
	}
	for i := range 60 {
		minute := ui.Minute{At: at.Truncate(time.Minute).Add(time.Duration(i-59) * time.Minute)}
		if i%17 != 3 {
			minute.Published = int64(5200 + 1900*((i*i)%7) - 31*i)
		}
		if i > 40 && i < 47 {
			minute.Failed, minute.Retried = int64(300*(i-40)), int64(200*(i-40))
		}
		snapshot.Minutes = append(snapshot.Minutes, minute)
	}
	return snapshot
}

func testPartition(at time.Time, n int, workers []ui.Worker) ui.Partition {
	p := ui.Partition{Number: n, Epoch: int64(3 + n%4), Delivered: int64(77000 + 13*n)}
	if n%11 != 10 {
		owner := n % 3
		p.Owner, p.LeaseLeft = workers[owner].ID, 7300*time.Millisecond
		p.LeaseUntil = at.Add(p.LeaseLeft)
		workers[owner].Owned++
	}
	workers[n%2].Desired++
	if n%5 == 2 {
		p.Pending, p.OldestPending = int64(1+n*n), time.Duration(n)*900*time.Millisecond
	}
	switch n % 16 {
	case 6:
		p.Failed, p.Blocked, p.BlockedStreams = 1, 17, 1
	case 9:
		p.Dead, p.Blocked, p.BlockedStreams = 2, 1204, 2
	case 12:
		paused := at.Add(-time.Hour)
		p.PausedAt = &paused
	case 14:
		p.Failed = 3
	}
	return p
}

// serve runs the handler on a real loopback listener.
func serve(t *testing.T, options ui.Options) *httptest.Server {
	t.Helper()
	if options.Source == nil {
		options.Source = always(cluster(16))
	}
	handler, err := ui.NewHandler(options)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		handler.CloseStreams()
		server.Close()
	})
	return server
}

type answer struct {
	*http.Response
	text string
}

// call sends one request without following redirects.
func call(t *testing.T, server *httptest.Server, method, path string, edit ...func(*http.Request)) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range edit {
		change(request)
	}
	client := *server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{Response: response, text: string(text)}
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

func wantStatus(t *testing.T, got answer, want int) {
	t.Helper()
	if got.StatusCode != want {
		t.Errorf("%s %s: status %d, want %d; body %.300s", got.Request.Method, got.Request.URL.Path, got.StatusCode, want, got.text)
	}
}

func wantContains(t *testing.T, got answer, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(got.text, part) {
			t.Errorf("%s: the body lacks %q; body %.600s", got.Request.URL, part, got.text)
		}
	}
}

func decode[T any](t *testing.T, got answer) T {
	t.Helper()
	var body T
	if err := json.Unmarshal([]byte(got.text), &body); err != nil {
		t.Fatalf("%s: %v in %.300s", got.Request.URL, err, got.text)
	}
	return body
}
