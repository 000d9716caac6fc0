package caller_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/inbox/caller"
	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// A caller that is suspended amid taking an answer in keeps others from the queue for a while, not for ever.
func TestACallerIsSuspended(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	requests := numbered(3)
	w.queue(t, requests...)
	came, goOn := make(chan struct{}), make(chan struct{})
	resume := sync.OnceFunc(func() { close(goOn) })
	defer resume()
	var once sync.Once
	stands := func(ctx context.Context, tx pgx.Tx, request, result []byte, no error) error {
		once.Do(func() { close(came); <-goOn })
		return keep(ctx, tx, request, result, no)
	}
	c, err := caller.New(w.db, remote{w.http.URL}, stands, caller.Config{Name: sender, Interval: 10 * time.Millisecond, Timeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	select {
	case <-came:
	case <-time.After(clustertest.Patience):
		t.Error("no answer came")
	}
	w.run(t)
	w.want(t, requests)
	resume()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the one that was suspended returns %v", err)
	}
}

// Two callers share a queue, and an answer takes its time, in sessions that are isolated, or may not be idle for long.
func TestCallersUnderTheSettingsOfADatabase(t *testing.T) {
	t.Parallel()
	for setting, value := range map[string]string{
		"default_transaction_isolation": "serializable", "idle_in_transaction_session_timeout": "50ms", "idle_session_timeout": "50ms",
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			config := w.db.Config()
			config.ConnConfig.RuntimeParams[setting] = value
			limited, err := pgxpool.NewWithConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(limited.Close)
			requests := numbered(10)
			w.queue(t, requests...)
			slow := func(ctx context.Context, tx pgx.Tx, request, result []byte, no error) error {
				timer := time.NewTimer(150 * time.Millisecond)
				defer timer.Stop()
				<-timer.C
				return keep(ctx, tx, request, result, no)
			}
			for range 2 {
				c, err := caller.New(limited, remote{w.http.URL}, slow, caller.Config{Name: sender, Interval: 10 * time.Millisecond})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- c.Run(ctx) }()
				t.Cleanup(func() {
					cancel()
					if err := <-ended; err != nil {
						t.Error(err)
					}
				})
			}
			w.want(t, requests)
		})
	}
}
