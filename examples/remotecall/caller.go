package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// callerConfig says how calls are delivered.
type callerConfig struct {
	// Callbacks by the name that calls give.
	Callbacks map[string]callback
	// Timeout of one attempt, and of one callback. Defaults to 5 s.
	Timeout time.Duration
	// FirstBackoff doubles up to LongestBackoff. Defaults to 100 ms and 30 s.
	FirstBackoff, LongestBackoff time.Duration
	// Poll is how often a target is looked at that nobody woke. Defaults to 500 ms.
	Poll time.Duration
	// CallbackAttempts is how often a callback may fail before it is dead. Defaults to 8.
	CallbackAttempts int
	// PassCallbacks sends a target's next calls while a callback of it is failing, so that callbacks may run out of order.
	// Default: they wait, until it succeeds or is dead.
	PassCallbacks bool
	Log           *slog.Logger
}

func (c callerConfig) withDefaults() callerConfig {
	if c.Timeout == 0 {
		c.Timeout = 5 * time.Second
	}
	if c.FirstBackoff == 0 {
		c.FirstBackoff = 100 * time.Millisecond
	}
	if c.LongestBackoff == 0 {
		c.LongestBackoff = 30 * time.Second
	}
	if c.Poll == 0 {
		c.Poll = 500 * time.Millisecond
	}
	if c.CallbackAttempts == 0 {
		c.CallbackAttempts = 8
	}
	return c
}

// caller delivers calls: one lane per target, each by itself, so that a slow target delays nobody else.
type caller struct {
	cfg    callerConfig
	pool   *pgxpool.Pool
	client *http.Client
	log    *slog.Logger

	mu    sync.Mutex
	lanes map[string]chan struct{} // wakes the lane
}

func newCaller(pool *pgxpool.Pool, cfg callerConfig) *caller {
	return &caller{cfg: cfg.withDefaults(), pool: pool, client: newClient(), log: cfg.Log, lanes: map[string]chan struct{}{}}
}

// run delivers until the context ends. Of several callers one delivers and the others stand by: that saves attempts,
// while order and single execution rest on the receivers and on the rows.
func (c *caller) run(ctx context.Context) error {
	defer c.client.CloseIdleConnections()
	for ctx.Err() == nil {
		if err := c.lead(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("delivery pauses", "error", err)
		}
		pause(ctx, nil, c.cfg.Poll)
	}
	return nil
}

// lead delivers for as long as it holds the lock of all callers of this database.
func (c *caller) lead(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, c.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for first := false; ; {
		if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(hashtext('examples/remotecall/caller'))`).Scan(&first); err != nil {
			return err
		}
		if first {
			break
		}
		if !pause(ctx, nil, c.cfg.Poll) {
			return nil
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for {
		targets, err := c.targets(ctx, conn) // on the connection of the lock: when it breaks, delivery ends
		if err != nil {
			return err
		}
		for _, target := range targets {
			if wake, isNew := c.lane(target); isNew {
				running.Go(func() {
					defer c.leave(target)
					c.drive(ctx, target, wake)
				})
			}
		}
		if !pause(ctx, nil, c.cfg.Poll) {
			return nil
		}
	}
}

func (c *caller) targets(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	rows, err := conn.Query(ctx, `SELECT target FROM remote_targets ORDER BY target`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (c *caller) lane(target string) (wake <-chan struct{}, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lanes[target] != nil {
		return nil, false
	}
	c.lanes[target] = make(chan struct{}, 1)
	return c.lanes[target], true
}

func (c *caller) leave(target string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.lanes, target)
}

// wake has a target looked at now. A wake-up that is lost costs one poll interval.
func (c *caller) wake(target string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case c.lanes[target] <- struct{}{}: // of an unknown target: a nil channel, which takes nothing
	default:
	}
}

// drive works through the calls of one target.
func (c *caller) drive(ctx context.Context, target string, wake <-chan struct{}) {
	for {
		wait, err := c.step(ctx, target)
		switch {
		case err != nil && ctx.Err() == nil:
			c.log.Warn("the lane pauses", "target", target, "error", err)
			wait = c.cfg.Poll
		case wait == 0 && err == nil:
			continue // there may be more
		}
		if !pause(ctx, wake, min(wait, c.cfg.Poll)) {
			return
		}
	}
}

// step does what is due for a target, and returns how long nothing else will be: 0 when something was done.
func (c *caller) step(ctx context.Context, target string) (time.Duration, error) {
	called, waiting, err := c.callbackDue(ctx, target)
	if err != nil || called {
		return 0, err
	}
	if waiting > 0 && !c.cfg.PassCallbacks {
		return waiting, nil
	}
	next, err := c.claim(ctx, target)
	if errors.Is(err, pgx.ErrNoRows) {
		return c.idle(ctx, target, waiting)
	} else if err != nil {
		return 0, fmt.Errorf("claim: %w", err)
	}
	r, err := deliver(ctx, c.client, c.cfg.Timeout, next)
	if err != nil {
		return c.failed(ctx, next, err)
	}
	return 0, c.finish(ctx, next.OnResult, r)
}

// callbackDue runs the first callback that failed before and is due again. Without one it returns how long until the
// next is, 0 if none is waiting.
func (c *caller) callbackDue(ctx context.Context, target string) (called bool, waiting time.Duration, err error) {
	var r result
	var onResult string
	err = c.pool.QueryRow(ctx, `SELECT call_id, target, on_result, outcome, coalesce(answer, ''),
			CASE WHEN callback_at BETWEEN clock_timestamp() AND clock_timestamp() + $2::interval AND callback_errors > 0
			     THEN callback_at - clock_timestamp() ELSE interval '0' END AS waiting
		FROM remote_calls WHERE target = $1 AND dead_at IS NULL AND outcome IS NOT NULL ORDER BY waiting, callback_at, call_id LIMIT 1`,
		target, c.cfg.LongestBackoff).
		Scan(&r.ID, &r.Target, &onResult, &r.Outcome, &r.Answer, &waiting)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, 0, nil
	case err != nil || waiting > 0:
		return false, waiting, err
	}
	return true, 0, c.finish(ctx, onResult, r)
}

// attemptDue says that the backoff of a call c is over. One that ends later than one can, by $2, was before the clock stepped back.
const attemptDue = `(c.attempts = 0 OR c.attempt_at <= clock_timestamp() OR c.attempt_at > clock_timestamp() + $2::interval)`

// claim takes the first unanswered call of a target: the lowest id, whether it can be sent or not, so that none is
// overtaken. It can when its event came out of the stream and its backoff is over. What claim returns is marked as sent;
// pgx.ErrNoRows says that nothing can be sent now.
func (c *caller) claim(ctx context.Context, target string) (outgoing, error) {
	var o outgoing
	err := c.pool.QueryRow(ctx, `WITH head AS (
			SELECT call_id FROM remote_calls WHERE target = $1 AND dead_at IS NULL AND outcome IS NULL ORDER BY call_id LIMIT 1 FOR UPDATE)
		UPDATE remote_calls c SET sent_at = coalesce(sent_at, clock_timestamp()), attempts = attempts + 1
		FROM head, remote_targets t
		WHERE c.call_id = head.call_id AND t.target = c.target AND c.arrived_at IS NOT NULL AND `+attemptDue+`
		RETURNING c.call_id, c.call_uuid, c.target, t.url, t.token, c.procedure, c.arguments::text, c.on_result, c.attempts`, target, c.cfg.LongestBackoff).
		Scan(&o.ID, &o.UUID, &o.Target, &o.URL, &o.Token, &o.Procedure, &o.Arguments, &o.OnResult, &o.Attempts)
	return o, err
}

// idle is how long until the head of a target may be sent, at most waiting if that is above 0.
func (c *caller) idle(ctx context.Context, target string, waiting time.Duration) (time.Duration, error) {
	var left time.Duration
	err := c.pool.QueryRow(ctx, `SELECT coalesce((SELECT CASE WHEN arrived_at IS NOT NULL THEN CASE WHEN `+attemptDue+` THEN '0' ELSE c.attempt_at - clock_timestamp() END END
		FROM remote_calls AS c WHERE target = $1 AND dead_at IS NULL AND outcome IS NULL ORDER BY call_id LIMIT 1), $3::interval)`,
		target, c.cfg.LongestBackoff, c.cfg.Poll).Scan(&left)
	if waiting > 0 {
		left = min(left, waiting)
	}
	return max(left, time.Millisecond), err
}

// failed notes an attempt that decided nothing. Such attempts are repeated for ever: only the target can say no.
func (c *caller) failed(ctx context.Context, o outgoing, cause error) (time.Duration, error) {
	if ctx.Err() != nil {
		return 0, nil
	}
	wait := c.cfg.backoff(o.Attempts)
	var retry *retryError
	if errors.As(cause, &retry) {
		wait = max(wait, min(retry.after, c.cfg.LongestBackoff))
	}
	_, err := c.pool.Exec(ctx, `UPDATE remote_calls SET attempt_at = clock_timestamp() + $2::interval, last_error = $3
		WHERE call_id = $1`, o.ID, wait, storable(cause.Error()))
	c.log.Warn("attempt failed", "call_id", o.ID, "target", o.Target, "attempts", o.Attempts, "next_in", wait, "error", cause)
	return wait, err
}

// pause waits, at most d, and tells whether the context still lives.
func pause(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-timer.C:
	}
	return true
}
