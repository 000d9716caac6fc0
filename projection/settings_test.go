package projection_test

import (
	"context"
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
