package outbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox"
)

// counts are how many events of a stream there are, and how many of them are
// audit-only and queued.
func counts(t *testing.T, db *pgx.Conn, stream string) (events, auditOnly, queued int) {
	t.Helper()
	err := db.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE e.audit_only), count(o.global_sequence)
		FROM events AS e LEFT JOIN outbox AS o ON o.global_sequence = e.sequence WHERE e.stream_id = $1`, stream).
		Scan(&events, &auditOnly, &queued)
	if err != nil {
		t.Fatal(err)
	}
	return events, auditOnly, queued
}

func wantCounts(t *testing.T, db *pgx.Conn, stream string, events, auditOnly, queued int) {
	t.Helper()
	if e, a, q := counts(t, db, stream); e != events || a != auditOnly || q != queued {
		t.Errorf("stream %s: %d events, %d audit-only, %d queued; want %d, %d, %d", stream, e, a, q, events, auditOnly, queued)
	}
}

// quietSetup is one connection, as a pool hands it from one to the next.
func quietSetup(t *testing.T) (*pgx.Conn, *outbox.Producer) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), pgtest.Migrated(t, 4))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	p, err := outbox.New(outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return db, p
}

func thing(stream string) outbox.Event { return outbox.Event{StreamID: stream, Type: "thing.done"} }

// within runs a transaction that is committed.
func within(t *testing.T, db *pgx.Conn, fn func(tx pgx.Tx) error) {
	t.Helper()
	if err := pgx.BeginFunc(t.Context(), db, fn); err != nil {
		t.Fatal(err)
	}
}

func TestAMarkedTransactionQueuesNothing(t *testing.T) {
	t.Parallel()
	db, p := quietSetup(t)
	ctx := t.Context()
	within(t, db, func(tx pgx.Tx) error {
		if err := p.WithoutEnqueueTx(ctx, tx); err != nil {
			return err
		}
		appended, err := p.AppendTx(ctx, tx, thing("a"), thing("a"), thing("b")) // the batch
		if err == nil && (appended[0].Enqueued || appended[2].Enqueued) {
			t.Errorf("it says %+v", appended)
		}
		if err == nil {
			_, err = p.AppendTx(ctx, tx, thing("a")) // one
		}
		if err == nil {
			_, err = tx.Exec(ctx, `SELECT outbox_append('a', 't', '{}'), outbox_append_bytes('a', 't', 'x', available_at => now() + interval '1 h')`)
		}
		return err
	})
	wantCounts(t, db, "a", 5, 5, 0)
	wantCounts(t, db, "b", 1, 1, 0)
	within(t, db, func(tx pgx.Tx) error { // the same connection, later
		_, err := p.AppendTx(ctx, tx, thing("a"), thing("b"))
		return err
	})
	wantCounts(t, db, "a", 6, 5, 1)
	wantCounts(t, db, "b", 2, 1, 1)
}

func TestAMarkEndsWithItsSavepoint(t *testing.T) {
	t.Parallel()
	db, p := quietSetup(t)
	ctx := t.Context()
	within(t, db, func(tx pgx.Tx) error {
		if _, err := p.AppendTx(ctx, tx, thing("a")); err != nil {
			return err
		}
		undone := errors.New("undone")
		err := pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
			if err := p.WithoutEnqueueTx(ctx, inner); err != nil {
				return err
			}
			if _, err := p.AppendTx(ctx, inner, thing("a")); err != nil {
				return err
			}
			return undone
		})
		if !errors.Is(err, undone) {
			return err
		}
		_, err = p.AppendTx(ctx, tx, thing("a"))
		return err
	})
	wantCounts(t, db, "a", 2, 0, 2)
}

// Whoever sets the parameter for the session, or forges a transaction's id, gets
// an error and silences nobody.
func TestAMarkThatAnybodyLeftBehindIsRefused(t *testing.T) {
	t.Parallel()
	db, p := quietSetup(t)
	ctx := t.Context()
	for _, leave := range []string{
		`SET postrider.replaying = on`,
		`SELECT set_config('postrider.replaying', pg_current_xact_id()::text, false)`,
	} {
		if _, err := db.Exec(ctx, leave); err != nil {
			t.Fatal(err)
		}
		for what, events := range map[string][]outbox.Event{"one": {thing("a")}, "batch": {thing("a"), thing("a")}} {
			err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
				_, err := p.AppendTx(ctx, tx, events...)
				return err
			})
			if !errors.Is(err, outbox.ErrInvalidEvent) {
				t.Errorf("%s, %s: %v", leave, what, err)
			}
		}
	}
	wantCounts(t, db, "a", 0, 0, 0)
	if _, err := db.Exec(ctx, `RESET postrider.replaying`); err != nil {
		t.Fatal(err)
	}
	within(t, db, func(tx pgx.Tx) error { _, err := p.AppendTx(ctx, tx, thing("a")); return err })
	wantCounts(t, db, "a", 1, 0, 1)
}

func TestAQuietProducerQueuesNothing(t *testing.T) {
	t.Parallel()
	db, p := quietSetup(t)
	ctx := t.Context()
	within(t, db, func(tx pgx.Tx) error {
		if _, err := p.WithoutEnqueue().AppendTx(ctx, tx, thing("a"), thing("a")); err != nil {
			return err
		}
		_, err := p.AppendTx(ctx, tx, thing("a"))
		return err
	})
	wantCounts(t, db, "a", 3, 2, 1)
}
