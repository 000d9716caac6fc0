package main

import (
	"context"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Neither a call nor a callback waits for a clock that stepped back, behind which the time for it is.
func TestNothingWaitsForAClockThatSteppedBack(t *testing.T) {
	t.Parallel()
	pool, _ := answered(t)
	taken := func(context.Context, pgx.Tx, result) error { return nil }
	c := newCaller(pool, callerConfig{Callbacks: map[string]callback{"it": taken}, Log: slog.New(slog.DiscardHandler)})
	const later = `clock_timestamp() + interval '1 hour'`
	for name, sql := range map[string]string{
		"is new":       `UPDATE remote_calls SET arrived_at = clock_timestamp(), attempts = 0, attempt_at = clock_timestamp() + interval '10 s'`,
		"failed":       `UPDATE remote_calls SET attempts = 3, attempt_at = ` + later,
		"failed often": `UPDATE remote_calls SET attempts = 30, attempt_at = ` + later,
	} {
		if _, err := pool.Exec(t.Context(), `UPDATE remote_calls SET arrived_at = clock_timestamp()`); err != nil {
			t.Fatal(err)
		}
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
		if left, err := c.idle(t.Context(), "north", 0); err != nil || left > c.cfg.Poll {
			t.Errorf("a call that %s is waited for %v, %v", name, left, err)
		}
		if _, err := c.claim(t.Context(), "north"); err != nil {
			t.Errorf("a call that %s: %v", name, err)
		}
	}
	for _, sql := range []string{
		`UPDATE remote_calls SET outcome = 'done', callback_errors = 3, callback_at = ` + later,
		`INSERT INTO remote_calls (call_id, call_uuid, target, procedure, arguments, on_result, outcome, callback_errors, callback_at)
		SELECT 8, gen_random_uuid(), target, procedure, arguments, on_result, outcome, 3, clock_timestamp() + interval '20 s' FROM remote_calls`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if called, waiting, err := c.callbackDue(t.Context(), "north"); !called || err != nil {
		t.Errorf("a callback that failed is waited for %v, %v", waiting, err)
	}
	if called, waiting, err := c.callbackDue(t.Context(), "north"); called || waiting == 0 || err != nil {
		t.Errorf("a callback whose time is to come: called %t, waits %v, %v", called, waiting, err)
	}
}
