package projection_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/projection"
)

// set gives the sessions from now on a setting, as an administrator does for a database.
func (b *bundle) set(t *testing.T, setting, value string) {
	t.Helper()
	b.exec(t, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET `+setting+` = %L', current_database(), '`+value+`'); END $$`)
	b.pool.Reset()
}

// applied is a projection that has applied one event.
func applied(t *testing.T, b *bundle) *projection.Projection {
	t.Helper()
	p := b.make(t, projection.Outbox)
	b.append(t, events("account", "paid", 1)...)
	stop := b.start(t, p)
	b.until(t, 1, `SELECT count(*) FROM projection.entries`)
	stop()
	return p
}

// A check holds a session that is idle while it rebuilds: without it another check drops its schema.
func TestAnIntegrityCheckOutlastsTheLimitOfIdleSessions(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	p := applied(t, b)
	b.set(t, "idle_session_timeout", "200ms")
	b.sums.hook = func(ctx context.Context, tx pgx.Tx, _ projection.Event) error {
		_, err := tx.Exec(ctx, `SELECT pg_catalog.pg_sleep(1)`)
		return err
	}
	clean(t, p)
	if n := b.count(t, `SELECT count(*) FROM pg_namespace WHERE nspname LIKE '%scratch%'`); n > 0 {
		t.Errorf("%d schemas are left", n)
	}
	for _, conn := range b.pool.AcquireAllIdle(t.Context()) {
		var limit string
		if err := conn.QueryRow(t.Context(), `SELECT current_setting('idle_session_timeout')`).Scan(&limit); err == nil && limit != "200ms" {
			t.Errorf("a session of the pool is left with %s", limit)
		}
		conn.Release()
	}
}

// What looks at all streams takes as long as it takes. A table that is locked for a second stands for a large one.
func TestALookAtAllStreamsOutlastsTheLimitOfStatements(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	p := applied(t, b)
	for _, table := range []string{"projection.sums", "public.events"} {
		b.set(t, "statement_timeout", "0")
		locked, done := make(chan error, 1), make(chan error, 1)
		go func() {
			done <- pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), `LOCK TABLE `+table)
				locked <- err
				if err == nil {
					_, err = tx.Exec(t.Context(), `SELECT pg_catalog.pg_sleep(1)`)
				}
				return err
			})
		}()
		if err := <-locked; err != nil {
			t.Fatal(err)
		}
		b.set(t, "statement_timeout", "100ms")
		if _, err := p.Detect(t.Context(), 0); err != nil {
			t.Errorf("with %s large: %v", table, err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// A stream that others hold, a deadlock and isolated sessions do not end a start: it is tried again, as a batch is.
func TestAStartOutlastsWhatIsInItsWay(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	applied(t, b)
	b.append(t, events("other", "paid", 1)...)
	b.exec(t, `DELETE FROM projection.entries`)
	b.set(t, "default_transaction_isolation", "repeatable read")
	b.set(t, "lock_timeout", "100ms")
	holder, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Rollback(context.WithoutCancel(t.Context()))
	if _, err := holder.Exec(t.Context(), `UPDATE projection.projection_streams SET lease_epoch = lease_epoch`); err != nil {
		t.Fatal(err)
	}
	var defined, replayed atomic.Int32
	b.sums.hook = func(ctx context.Context, tx pgx.Tx, _ projection.Event) error {
		return contend(ctx, tx, replayed.Add(1) == 1)
	}
	b.start(t, b.make(t, projection.Outbox, func(c *projection.Config) { c.Projector = contested{b.sums, &defined} }))
	b.untilTrue(t, "it meets the lock", func(context.Context) (bool, error) {
		return strings.Contains(b.log.text(), "55P03"), b.log.failure()
	})
	if err := holder.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.until(t, 2, `SELECT count(*) FROM projection.entries`)
	for _, what := range []string{`stream=""`, `stream=account`} {
		if text := b.log.text(); !strings.Contains(text, what) {
			t.Errorf("nothing is said with %s", what)
		}
	}
}

// contested are sums whose first definition is the victim of a deadlock.
type contested struct {
	*sums
	defined *atomic.Int32
}

func (c contested) Define(ctx context.Context, tx pgx.Tx) error {
	return errors.Join(contend(ctx, tx, c.defined.Add(1) == 1), c.sums.Define(ctx, tx))
}

// contend has the database tell of a deadlock.
func contend(ctx context.Context, tx pgx.Tx, meant bool) error {
	if !meant {
		return nil
	}
	_, err := tx.Exec(ctx, `DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40P01'; END $$`)
	return err
}
