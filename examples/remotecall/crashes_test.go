package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// crash is one death of the caller, by SIGKILL, for many rows at once: it dies when all of them are where they want it to.
type crash struct {
	ready, buried sync.WaitGroup
	dead, alive   chan struct{}
}

// kill has the caller die and come back once.
func (w *world) kill(t *testing.T) {
	t.Helper()
	w.crash.ready.Wait()
	w.caller.kill()
	close(w.crash.dead)
	w.crash.buried.Wait()
	w.call(t)
	close(w.crash.alive)
}

// mourner is one row's part in the crash. Who fails before it has done its part does it all the same.
type mourner struct {
	crash         *crash
	ready, buried func()
}

func (c *crash) mourner() *mourner {
	c.ready.Add(1)
	c.buried.Add(1)
	return &mourner{crash: c, ready: sync.OnceFunc(c.ready.Done), buried: sync.OnceFunc(c.buried.Done)}
}

// wait lets the caller die, does something while it is dead, and waits until it is back.
func (m *mourner) wait(t *testing.T, meanwhile func()) {
	t.Helper()
	m.ready()
	await(t, m.crash.dead)
	meanwhile()
	m.buried()
	await(t, m.crash.alive)
}

// crashesTable has what dies in the middle: real processes, by SIGKILL.
func crashesTable() []outcomeTest {
	var by uint32
	var unlock func()
	executed := make(chan struct{})
	return []outcomeTest{
		{
			name: "receiver dies before its commit", mortal: true, state: "settled", arrives: 100, asks: 2,
			before: func(t *testing.T, b *bank) {
				t.Helper()
				by, unlock = b.world.lock(t, `SELECT FROM bank_`+b.name+`.bank_accounts WHERE account = 'alice' FOR UPDATE`)
			},
			during: func(t *testing.T, b *bank, _ int64) {
				t.Helper()
				b.world.waitBlocked(t, by)
				b.process.kill()
				unlock()
				b.restart(t)
			},
		},
		{
			name: "receiver dies after its commit, before its answer", mortal: true, spoil: first(held(executed, nil)),
			state: "settled", arrives: 100, asks: 2,
			during: func(t *testing.T, b *bank, _ int64) {
				t.Helper()
				await(t, executed)
				b.restart(t) // the answer at the gate never reaches the caller, which gives up after its timeout
			},
		},
	}
}

// callerTable has deaths of the caller.
func callerTable() []outcomeTest {
	executed := make(chan struct{})
	answered, letAnswer := make(chan struct{}), make(chan struct{})
	failing, letFail := make(chan struct{}), make(chan struct{})
	return []outcomeTest{
		{
			name: "caller dies while the call is executed", spoil: first(held(executed, nil)),
			state: "settled", arrives: 100, asks: 2, exact: true,
			during: func(t *testing.T, b *bank, _ int64) {
				t.Helper()
				await(t, executed)
				b.mourner.wait(t, func() {})
			},
		},
		{
			name: "caller dies with the answer in its hands", spoil: first(held(answered, letAnswer)),
			state: "settled", arrives: 100, asks: 2, exact: true,
			during: func(t *testing.T, b *bank, id int64) {
				t.Helper()
				await(t, answered)
				by, unlock := b.world.lock(t, `SELECT FROM remote_calls WHERE call_id = $1 FOR UPDATE`, id)
				let(t, letAnswer)
				b.world.waitBlocked(t, by) // the one that removes the row
				b.mourner.wait(t, func() {})
				unlock()
			},
		},
		{
			name: "caller dies between two attempts of a callback", spoil: first(held(failing, letFail)),
			state: "settled", arrives: 100, asks: 1, exact: true,
			during: func(t *testing.T, b *bank, id int64) {
				t.Helper()
				await(t, failing)
				mend := b.breakCallbacks(t, id)
				let(t, letFail)
				b.world.waitCall(t, id, "callback_errors > 0")
				b.mourner.wait(t, func() {})
				mend()
				if _, err := requeue(t.Context(), b.world.pool, id); err != nil { // in case it died meanwhile
					t.Error(err)
				}
			},
		},
		{
			name: "cancelled before it was sent", state: "cancelled", asks: 0, exact: true,
			before: func(t *testing.T, b *bank) {
				t.Helper()
				b.mourner.ready()
				await(t, b.world.crash.dead)
			},
			during: func(t *testing.T, b *bank, id int64) {
				t.Helper()
				b.mourner.wait(t, func() {
					if err := cancelTransfer(t.Context(), b.world.pool, id); err != nil {
						t.Error(err)
					}
				})
			},
		},
	}
}

// cancelsTable has calls that are taken back while they are under way.
func cancelsTable() []outcomeTest {
	executed, release := make(chan struct{}), make(chan struct{})
	executedToo, releaseToo := make(chan struct{}), make(chan struct{})
	return []outcomeTest{
		{
			name: "cancelled while under way", spoil: first(held(executed, release)), state: "settled", arrives: 100, asks: 1, exact: true,
			during: func(t *testing.T, b *bank, id int64) {
				t.Helper()
				await(t, executed)
				if err := cancelTransfer(t.Context(), b.world.pool, id); !errors.Is(err, errTooLate) {
					t.Errorf("cancelling gives %v, want %v", err, errTooLate)
				}
				let(t, release)
			},
		},
		{
			name: "row deleted by hand while under way", spoil: first(held(executedToo, releaseToo)),
			state: "settled", arrives: 100, asks: 1, exact: true,
			during: func(t *testing.T, b *bank, id int64) {
				t.Helper()
				await(t, executedToo)
				if _, err := b.world.pool.Exec(t.Context(), `DELETE FROM remote_calls WHERE call_id = $1`, id); err != nil {
					t.Fatal(err)
				}
				let(t, releaseToo)
				clustertest.Until(t, "the answer came", func(context.Context) (bool, error) {
					return strings.Contains(b.world.caller.text(), fmt.Sprintf("the call was gone when its answer came\" call_id=%d", id)), nil
				}, b.world.caller.text)
				// No callback ran; the money arrived, so that a person settles it.
				done, err := b.world.pool.Exec(t.Context(), `UPDATE bank_transfers SET state = 'settled'
					WHERE call_id = $1 AND state = 'under way'`, id)
				if err != nil || done.RowsAffected() != 1 {
					t.Errorf("settled %d transfers by hand, %v", done.RowsAffected(), err)
				}
			},
		},
	}
}
