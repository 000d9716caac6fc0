package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// A target that never answers delays nobody, and its own calls keep their order.
func TestASlowTargetDelaysNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, "--timeout=30s")
	slow, quick := w.bank(t, "slow"), w.bank(t, "quick")
	executed, release := make(chan struct{}), make(chan struct{})
	slow.gate.to(slow.gate.backend, first(held(executed, release)))
	head := slow.transfer(t, "alice", 1)
	behind := slow.transfer(t, "alice", 2)
	await(t, executed)
	for i := range 20 {
		w.waitState(t, quick.transfer(t, "alice", int64(i+1)), "settled")
	}
	if state, _, err := w.state(t.Context(), behind); state != "under way" || err != nil {
		t.Errorf("the call behind the slow one is %s, %v", state, err)
	}
	if got := slow.gate.asked.Load(); got != 1 {
		t.Errorf("the slow target was asked %d times", got)
	}
	if err := cancelTransfer(t.Context(), w.pool, behind); err != nil {
		t.Errorf("cancel the call behind: %v", err)
	}
	let(t, release)
	w.waitState(t, head, "settled")
	w.waitState(t, behind, "cancelled")
	w.checkMoney(t, slow, quick)
}

// With --pass-callbacks the next calls do not wait for a callback that fails.
func TestCallbacksMayBePassed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, "--pass-callbacks", "--first-backoff=10ms", "--longest-backoff=50ms", "--callback-attempts=1000000")
	b := w.bank(t, "north")
	executed, release := make(chan struct{}), make(chan struct{})
	b.gate.to(b.gate.backend, first(held(executed, release)))
	id := b.transfer(t, "alice", 1)
	await(t, executed)
	mend := b.breakCallbacks(t, id)
	let(t, release)
	w.waitState(t, b.transfer(t, "alice", 2), "settled")
	w.waitCall(t, id, "callback_errors > 0 AND outcome = 'done' AND dead_at IS NULL")
	mend()
	w.waitState(t, id, "settled")
	w.checkMoney(t, b)
}

// Without it they wait.
func TestCallsWaitForCallbacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, "--first-backoff=10ms", "--longest-backoff=50ms", "--callback-attempts=1000000")
	b := w.bank(t, "north")
	executed, release := make(chan struct{}), make(chan struct{})
	b.gate.to(b.gate.backend, first(held(executed, release)))
	id := b.transfer(t, "alice", 1)
	await(t, executed)
	mend := b.breakCallbacks(t, id)
	let(t, release)
	next := b.transfer(t, "alice", 2)
	w.waitCall(t, next, "arrived_at IS NOT NULL")
	w.waitCall(t, id, "callback_errors > 5")
	w.waitCall(t, next, "sent_at IS NULL")
	mend()
	w.waitState(t, next, "settled")
	w.checkMoney(t, b)
}

// The sender is who the token belongs to, and nobody else's ids count for it.
func TestTheSenderIsAuthenticated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, "--first-backoff=10ms", "--longest-backoff=50ms")
	b := w.bank(t, "north")
	post := func(token, query string, id int) int {
		body := strings.NewReader(`{"account":"bob","amount":3}`)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.gate.url+"/call"+query, body)
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{
			"Authorization": {"Bearer " + token}, headerID: {fmt.Sprint(id)}, headerUUID: {uuid.NewString()},
			headerTarget: {"north"}, headerProcedure: {"deposit"},
		}
		response, err := b.gate.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.StatusCode
	}
	for _, token := range []string{"", "wrong", b.token + "x"} {
		if got := post(token, "?sender_identity=home", 1); got != http.StatusUnauthorized {
			t.Errorf("token %q is answered with %d", token, got)
		}
	}
	// Another sender's high id does not outdate ours.
	if _, err := w.pool.Exec(t.Context(), `INSERT INTO bank_north.remote_senders VALUES ('other', sha256('other''s'))`); err != nil {
		t.Fatal(err)
	}
	if got := post("other's", "", 1_000_000); got != http.StatusOK {
		t.Errorf("the other sender is answered with %d", got)
	}
	w.waitState(t, b.transfer(t, "alice", 1), "settled")

	// A wrong token at the sender's side heals when it is mended: nothing is lost meanwhile.
	if err := setTarget(t.Context(), w.pool, "north", b.gate.url, "wrong"); err != nil {
		t.Fatal(err)
	}
	id := b.transfer(t, "alice", 2)
	w.waitCall(t, id, "last_error LIKE '%401%' AND attempts > 2")
	if err := setTarget(t.Context(), w.pool, "north", b.gate.url, b.token); err != nil {
		t.Fatal(err)
	}
	w.waitState(t, id, "settled")
}

// The backoff doubles up to its bound.
func TestBackoff(t *testing.T) {
	t.Parallel()
	cfg := callerConfig{}.withDefaults()
	for failures, want := range map[int]time.Duration{
		1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 5: 1600 * time.Millisecond, 9: 25600 * time.Millisecond,
		10: 30 * time.Second, 1_000_000: 30 * time.Second,
	} {
		if got := cfg.backoff(failures); got != want {
			t.Errorf("after %d failures %s, want %s", failures, got, want)
		}
	}
}
