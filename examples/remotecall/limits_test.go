package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// answered is a sender's database with one call that its target has answered to.
func answered(t *testing.T) (*pgxpool.Pool, result) {
	t.Helper()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 4))
	err := prepareSender(t.Context(), pool)
	if err == nil {
		err = setTarget(t.Context(), pool, "north", "http://127.0.0.1:1", "token")
	}
	if err == nil {
		_, err = pool.Exec(t.Context(), `INSERT INTO remote_calls (call_id, call_uuid, target, procedure, arguments, on_result)
			VALUES (7, $1, 'north', 'deposit', '{}', 'it')`, uuid.New())
	}
	if err != nil {
		t.Fatal(err)
	}
	return pool, result{ID: 7, Target: "north", Outcome: outcomeDone, Answer: []byte("a\x00b\xff")}
}

// However a callback fails, it is counted, and dead in the end: nothing that it does keeps its target for good.
func TestCallbacksFailInManyWays(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]callback{
		"error": func(context.Context, pgx.Tx, result) error { return errors.New("no") },
		"text that none stores": func(_ context.Context, _ pgx.Tx, r result) error {
			return fmt.Errorf("%s%s", r.Answer, strings.Repeat("x", 1<<20))
		},
		"panic":          func(context.Context, pgx.Tx, result) error { panic("no") },
		"hides an error": func(ctx context.Context, tx pgx.Tx, _ result) error { _, _ = tx.Exec(ctx, `SELECT 1/0`); return nil },
		"rolls back":     func(ctx context.Context, tx pgx.Tx, _ result) error { return tx.Rollback(ctx) },
		"deferred constraint": func(ctx context.Context, tx pgx.Tx, _ result) error {
			_, err := tx.Exec(ctx, `CREATE TEMPORARY TABLE IF NOT EXISTS one (n int UNIQUE DEFERRABLE INITIALLY DEFERRED);
				INSERT INTO one VALUES (1), (1)`)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, r := answered(t)
			c := newCaller(pool, callerConfig{Callbacks: map[string]callback{"it": fails}, CallbackAttempts: 2, Log: slog.New(slog.DiscardHandler)})
			for i := range 2 {
				if err := c.finish(t.Context(), "it", r); err != nil {
					t.Fatalf("failure %d: %v", i+1, err)
				}
			}
			var dead bool
			err := pool.QueryRow(t.Context(), `SELECT dead_at IS NOT NULL AND callback_errors = 2 AND outcome = 'done'
				AND answer = $1 AND last_error <> '' FROM remote_calls`, r.Answer).Scan(&dead)
			if err != nil || !dead {
				t.Errorf("it is not dead after two failures, %v", err)
			}
		})
	}
}

// A caller that was frozen and asks late is told that its call is outdated. The answer that is stored meanwhile stands.
func TestALateAnswerChangesNothing(t *testing.T) {
	t.Parallel()
	pool, r := answered(t)
	called := 0
	c := newCaller(pool, callerConfig{
		Callbacks:        map[string]callback{"it": func(context.Context, pgx.Tx, result) error { called++; return errors.New("no") }},
		CallbackAttempts: 1, Log: slog.New(slog.DiscardHandler),
	})
	late := r
	late.Outcome = outcomeOutdated
	for _, r := range []result{r, late} {
		if err := c.finish(t.Context(), "it", r); err != nil {
			t.Fatal(err)
		}
	}
	var outcome string
	var failures int
	err := pool.QueryRow(t.Context(), `SELECT outcome, callback_errors FROM remote_calls`).Scan(&outcome, &failures)
	if err != nil || called != 1 || outcome != outcomeDone || failures != 1 {
		t.Errorf("called %d times, %q, %d failures, %v", called, outcome, failures, err)
	}
}

// What no receiver would take is refused before it is sent: it would hold up its target for good.
func TestCallsThatNobodyTakesAreRefused(t *testing.T) {
	t.Parallel()
	pool, _ := answered(t)
	if err := openAccounts(t.Context(), pool, 10, "home"); err != nil {
		t.Fatal(err)
	}
	s, err := newSender()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		target, account, names string
		amount                 int64
	}{
		{"north", strings.Repeat("x", largestArguments), "bytes, at most 1048576 fit", 1},
		{"nowhere", "alice", `no target "nowhere"`, 1},
		{"north", "alice", `"home" does not hold 11`, 11},
	} {
		_, err := transfer(t.Context(), pool, s, "home", c.target, deposit{Account: c.account, Amount: c.amount})
		if err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("error %v, want %q in it", err, c.names)
		}
	}
	var left int
	err = pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM remote_calls WHERE call_id <> 7)
		+ (SELECT count(*) FROM bank_accounts WHERE balance <> 10)`).Scan(&left)
	if err != nil || left != 0 {
		t.Errorf("%d things are left of them, %v", left, err)
	}
	for _, address := range []string{"nonsense", "ftp://host", "http://", "http://host/?a=b", "http://u:secret%zz@host"} {
		if err := setTarget(t.Context(), pool, "south", address, "token"); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := setTarget(t.Context(), pool, "a/b", "http://host", "token"); err == nil || !strings.Contains(err.Error(), "NAME") {
		t.Error(err)
	}
}

// A receiver has a last word for every call that it could read, however long its reason, and no sender can pass for
// another one by the name of its target.
func TestTheReceiversLimits(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["search_path"] = "north"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	bank, err := newBank(t.Context(), pool, "north", "home", "token", program{log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		target, body string
		status       int
		named        bool
	}{
		{"north", `{"account":"alice","amount":1}`, http.StatusOK, true},
		{"north", strings.Repeat("\xff", largestArguments), http.StatusUnprocessableEntity, true},
		{"north", strings.Repeat("\x00", largestArguments), http.StatusUnprocessableEntity, true},
		{"north", strings.Repeat("x", largestArguments+1), http.StatusBadRequest, false},
		{"north/south", `{}`, http.StatusBadRequest, false},
		{"", `{}`, http.StatusBadRequest, false},
	} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/call", strings.NewReader(c.body))
		request.Header = http.Header{
			"Authorization": {"Bearer token"}, headerID: {fmt.Sprint(i + 1)}, headerUUID: {uuid.NewString()},
			headerTarget: {c.target}, headerProcedure: {"deposit"},
		}
		recorder := httptest.NewRecorder()
		bank.ServeHTTP(recorder, request)
		answer, _ := io.ReadAll(recorder.Body)
		if recorder.Code != c.status || (recorder.Header().Get(headerID) != "") != c.named || len(answer) > 8000 {
			t.Errorf("request %d to %q is answered with %d, %d bytes: %s", i+1, c.target, recorder.Code, len(answer), excerpt(answer))
		}
	}
}
