package pairs_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// served replays what was published until it began, as a monitor is asked to. Another monitor goes on with it amid the pair, and a third one
// at its end.
func served(s *stage, _ int) act {
	var monitor *clustertest.Worker
	return act{
		begin: func(t *testing.T) {
			t.Helper()
			s.WaitCount(t, 1, `SELECT (count(*) > 0)::int FROM outbox_messages WHERE state = 'published'`)
			to := s.Count(t, `SELECT max(global_sequence) FROM outbox_messages WHERE state = 'published'`)
			monitor = s.monitor(t)
			request(t, monitor, "/api/v1/replays", fmt.Sprintf(`{"to_sequence": %d, "rate": 200, "reason": "a pair"}`, to))
			n, err := s.selected(t.Context(), to)
			if err != nil {
				t.Fatal(err)
			}
			s.selects[to] = n
		},
		end: func(t *testing.T) {
			t.Helper()
			monitor = s.relieve(t, monitor)
		},
		finish: func(t *testing.T) {
			t.Helper()
			monitor = s.relieve(t, monitor)
			clustertest.Until(t, "what monitors were asked for is done", func(ctx context.Context) (bool, error) {
				// Whose runner is gone waits for no more than it must.
				_, err := s.Pool.Exec(ctx, `UPDATE outbox_replays SET updated_at = updated_at - interval '1 minute'
					WHERE rate IS NOT NULL AND state = 'running' AND updated_at < clock_timestamp() - interval '6 seconds'`)
				if err != nil {
					return false, err
				}
				var left int
				err = s.Pool.QueryRow(ctx, `SELECT count(*) FROM outbox_replays WHERE rate IS NOT NULL AND state <> 'done'`).Scan(&left)
				return err == nil && left == 0, err
			}, monitor.Stderr)
			dismissed(t, monitor)
		},
		check: s.wantReplayed,
	}
}

// monitor starts one without a worker.
func (s *stage) monitor(t *testing.T) *clustertest.Worker {
	t.Helper()
	return &clustertest.Worker{Process: clustertest.Launch(t, "monitor", s.Environment(), "monitor", "--http-addr=127.0.0.1:0")}
}

// relieve starts a monitor, and ends the one before.
func (s *stage) relieve(t *testing.T, old *clustertest.Worker) *clustertest.Worker {
	t.Helper()
	next := s.monitor(t)
	next.Monitor(t) // it is there
	dismissed(t, old)
	return next
}

func dismissed(t *testing.T, monitor *clustertest.Worker) {
	t.Helper()
	monitor.Signal(t, syscall.SIGTERM)
	if code := monitor.Exit(t); code != 0 {
		t.Errorf("a monitor that was asked to end ended with status %d: %s", code, monitor.Stderr())
	}
}

// request has a monitor do something.
func request(t *testing.T, monitor *clustertest.Worker, path, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	asked, err := http.NewRequestWithContext(ctx, http.MethodPost, monitor.Monitor(t)+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	asked.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(asked)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", path, answer.Status, err, text)
	}
}
