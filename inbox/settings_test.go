package inbox_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/inbox"
)

// set gives the sessions from now on a setting, as an administrator does for a database.
func (r *reading) set(t *testing.T, setting, value string) {
	t.Helper()
	_, err := r.pool.Exec(t.Context(), `SET default_transaction_read_only = off;
		DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET `+setting+` = %L', current_database(), '`+value+`'); END $$`, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	r.pool.Reset()
}

// Readers that begin together wait for each other, also where sessions are isolated by default.
func TestReadersBeginTogetherInIsolatedSessions(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	r.set(t, "default_transaction_isolation", "serializable")
	for range 20 { // who was there before has signed off
		var ends []func()
		for range 4 {
			ends = append(ends, r.run(t, quick(), apply))
		}
		waitFor(t, r.pool, `SELECT count(*) = 4 FROM inbox_readers`)
		for _, end := range ends {
			end()
		}
	}
}

// A database that refuses writes is named with the setting that has it do so.
func TestAReadOnlyDatabaseIsNamed(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	r.set(t, "default_transaction_read_only", "on")
	consumer, err := inbox.NewConsumer(r.box, r.js, apply, quick())
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"Run": consumer.Run(t.Context()), "Migrate": inbox.Migrate(t.Context(), r.pool, "other")} {
		if err == nil || !strings.Contains(err.Error(), "default_transaction_read_only") {
			t.Errorf("%s returns %v", name, err)
		}
	}
}

// A migration that waits for a lock in vain names the setting that ended it.
func TestALimitOfLocksIsNamed(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	holder, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Rollback(context.WithoutCancel(t.Context()))
	if _, err := holder.Exec(t.Context(), `LOCK TABLE inbox_schema_version`); err != nil {
		t.Fatal(err)
	}
	r.set(t, "lock_timeout", "100ms")
	if err := inbox.Migrate(t.Context(), r.pool, ""); err == nil || !strings.Contains(err.Error(), "lock_timeout") {
		t.Errorf("it ends with %v", err)
	}
}

// lines keeps a log that is read while it is written.
type lines struct {
	mu   sync.Mutex
	kept bytes.Buffer
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept.Write(line)
}

// A retention that somebody changes under a reader is told of while it reads, not when it is begun again.
func TestARetentionThatChangesIsToldOf(t *testing.T) {
	t.Parallel()
	var log lines
	r := newReading(t, func(c *inbox.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	end := r.run(t, quick(), apply)
	r.publish(t, event("s", 1))
	waitFor(t, r.pool, `SELECT count(*) = 1 FROM effects`)
	stream, err := r.js.Stream(t.Context(), "EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.Retention = jetstream.InterestPolicy
	if _, err := r.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for told := false; !told; {
		select {
		case <-ctx.Done():
			t.Fatal("nothing is told")
		case <-ticker.C:
			log.mu.Lock()
			told = strings.Contains(log.kept.String(), "its retention must be limits")
			log.mu.Unlock()
		}
	}
	r.publish(t, event("s", 2))
	waitFor(t, r.pool, `SELECT count(*) = 2 FROM effects`)
	end()
}
