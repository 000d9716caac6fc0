package projection

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// tally counts events.
type tally struct{}

func (tally) Tables() []Table { return []Table{{Name: "tally", Stream: "stream"}} }

func (tally) Define(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS tally (stream text PRIMARY KEY, n int NOT NULL)`)
	return err
}

func (tally) Apply(ctx context.Context, tx pgx.Tx, e Event) error {
	_, err := tx.Exec(ctx, `INSERT INTO tally AS t VALUES ($1, 1) ON CONFLICT (stream) DO UPDATE SET n = t.n + 1`, e.Stream)
	return err
}

// An owner that wakes up between its claim and its transaction, after its lease ran out, finds another one: it can neither
// apply, nor count a failure, nor give the stream back.
func TestAClaimThatRanOutIsWorthNothing(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 1))
	maker := func() *Projection {
		p, err := New(Config{
			Projector: tally{}, Pool: pool, Mode: Outbox, Workers: 1, MaxAttempts: 1,
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	old, heir := maker(), maker()
	if err := old.Prepare(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(ctx, `SELECT outbox_append('a', 'x', '1'), outbox_append('a', 'x', '1')`); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Announce(ctx, map[string]int64{"a": 2}); err != nil {
		t.Fatal(err)
	}
	first, err := old.claims(ctx, 5)
	if err != nil || len(first) != 1 {
		t.Fatalf("claimed %v, %v", first, err)
	}
	const expire = `UPDATE projection.projection_streams SET lease_until = clock_timestamp(), due_at = clock_timestamp()`
	if _, err := pool.Exec(ctx, expire); err != nil {
		t.Fatal(err) // as if its time had passed
	}
	second, err := heir.claims(ctx, 5)
	if err != nil || len(second) != 1 {
		t.Fatalf("the heir claimed %v, %v", second, err)
	}
	if err := old.batch(ctx, first[0], 1); !errors.Is(err, errLost) {
		t.Errorf("a batch of the old owner: %v", err)
	}
	if err := old.fail(ctx, first[0], &eventError{stream: "a", version: 1, cause: errors.New("no")}); err != nil {
		t.Error(err)
	}
	old.giveBack(ctx, first[0])
	if err := heir.batch(ctx, second[0], 5); err != nil {
		t.Errorf("a batch of the owner: %v", err)
	}
	if err := old.batch(ctx, first[0], 1); !errors.Is(err, errLost) {
		t.Errorf("a late batch of the old owner: %v", err)
	}
	var n, applied, attempts int
	const counted = `SELECT n, applied_version, attempts FROM projection.tally, projection.projection_streams`
	err = pool.QueryRow(ctx, counted).Scan(&n, &applied, &attempts)
	if err != nil || n != 2 || applied != 2 || attempts != 0 {
		t.Errorf("%d events counted, watermark %d, attempts %d, %v", n, applied, attempts, err)
	}
}
