package main

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// prepareBreaking lets breakCallbacks work.
func prepareBreaking(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, `CREATE TABLE broken (call_id bigint, times int); -- NULL: until it is mended
		CREATE SEQUENCE broken_times; -- which a callback that rolls back does not set back
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE most int; BEGIN
			SELECT times INTO most FROM broken b WHERE b.call_id = NEW.call_id;
			IF FOUND AND (most IS NULL OR nextval('broken_times') <= most) THEN RAISE 'the callback is broken'; END IF;
			RETURN NEW; END $$;
		CREATE TRIGGER refuse BEFORE UPDATE ON bank_transfers FOR EACH ROW EXECUTE FUNCTION refuse()`)
	return err
}

// breakCallbacks makes the callback of this transfer fail until it is mended.
func (b *bank) breakCallbacks(t *testing.T, id int64) (mend func()) {
	t.Helper()
	if _, err := b.world.pool.Exec(t.Context(), `INSERT INTO broken (call_id) VALUES ($1)`, id); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if _, err := b.world.pool.Exec(t.Context(), `DELETE FROM broken WHERE call_id = $1`, id); err != nil {
			t.Fatal(err)
		}
	}
}

// callbacksTable has callbacks that fail.
func callbacksTable() []outcomeTest {
	executed, release := make(chan struct{}), make(chan struct{})
	executedDead, releaseDead := make(chan struct{}), make(chan struct{})
	return []outcomeTest{
		{
			name: "callback fails, then succeeds", spoil: first(held(executed, release)), state: "settled", arrives: 100, asks: 1, exact: true,
			during: func(t *testing.T, b *bank, id int64) {
				t.Helper()
				await(t, executed)
				if _, err := b.world.pool.Exec(t.Context(), `INSERT INTO broken VALUES ($1, 2)`, id); err != nil {
					t.Fatal(err)
				}
				let(t, release)
				b.world.waitState(t, id, "settled")
				if n := b.world.cluster.Count(t, `SELECT last_value FROM broken_times`); n != 3 {
					t.Errorf("the callback ran %d times, want 3", n)
				}
			},
		},
		{
			name: "callback fails until it is dead, and is requeued", spoil: first(held(executedDead, releaseDead)),
			state: "settled", arrives: 107, asks: 2, exact: true,
			during: func(t *testing.T, b *bank, id int64) {
				t.Helper()
				await(t, executedDead)
				mend := b.breakCallbacks(t, id)
				next := b.transfer(t, "alice", 7)
				let(t, releaseDead)
				b.world.waitCall(t, id, "dead_at IS NOT NULL AND callback_errors = 3 AND outcome = 'done'")
				b.world.waitState(t, next, "settled") // nothing waits for the dead one
				mend()
				if n, err := requeue(t.Context(), b.world.pool, id); n != 1 || err != nil {
					t.Errorf("requeued %d, %v", n, err)
				}
			},
		},
	}
}
