package caller_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/inbox/caller"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// lines are those of a log.
type lines chan string

func (l lines) Write(p []byte) (int, error) { l <- string(p); return len(p), nil }

func (w *world) untilAnswered(t *testing.T, n int) {
	t.Helper()
	clustertest.Until(t, "calls are answered", func(ctx context.Context) (done bool, err error) {
		err = w.db.QueryRow(ctx, `SELECT count(*) = $1 FROM answers`, n).Scan(&done)
		return done, err
	}, nil)
}

// Policies that hide a caller's rows leave no call waiting without a word, and are no receiver that is ahead.
func TestHiddenRowsAreNotForgotten(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"inbox_calls", "inbox_callers"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			run := w.run(t)
			w.queue(t, "request 0")
			w.untilAnswered(t, 1)
			if err := run(); err != nil {
				t.Fatal(err)
			}
			w.queue(t, "request 1")
			do(t, w.db, `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO pg_signal_backend;
				GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO pg_signal_backend; ALTER TABLE `+table+` ENABLE ROW LEVEL SECURITY`)
			log := make(lines, 1000)
			c, err := caller.New(pgtest.PoolAs(t, w.url, "pg_signal_backend"), remote{w.http.URL}, keep,
				caller.Config{Name: sender, Interval: 10 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- c.Run(t.Context()) }()
			select {
			case err := <-ended:
				t.Fatal("it has ended: ", err)
			case line := <-log:
				if !strings.Contains(line, "row-level security of "+table) {
					t.Error(line)
				}
			case <-time.After(30 * time.Second):
				t.Fatal("nothing is said")
			}
			do(t, w.db, `ALTER TABLE `+table+` DISABLE ROW LEVEL SECURITY`)
			w.untilAnswered(t, 2)
			w.want(t, numbered(2))
		})
	}
}
