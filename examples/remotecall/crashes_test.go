package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// lockAccount holds alice's row at the bank, so that a deposit stands still before its commit.
func (b *bank) lockAccount(t *testing.T) (release func()) {
	t.Helper()
	return b.world.lock(t, `SELECT FROM bank_`+b.name+`.bank_accounts WHERE account = 'alice' FOR UPDATE`)
}

// crashesTable has what dies in the middle: real processes, by SIGKILL.
func crashesTable() []outcomeTest {
	executed, release := make(chan struct{}), make(chan struct{})
	var unlock func()
	return []outcomeTest{
		{
			name: "receiver dies before its commit", state: "settled", arrives: 100, asks: 2,
			before: func(t *testing.T, b *bank) {
				t.Helper()
				unlock = b.lockAccount(t)
			},
			during: func(t *testing.T, b *bank, _ int64) {
				t.Helper()
				b.world.waitBlocked(t, "UPDATE bank_accounts")
				b.process.kill()
				unlock()
				b.restart(t)
			},
		},
		{
			name: "receiver dies after its commit, before its answer", spoil: first(held(executed, release)),
			state: "settled", arrives: 100, asks: 2,
			during: func(t *testing.T, b *bank, _ int64) {
				t.Helper()
				await(t, executed)
				b.restart(t) // the answer at the gate never reaches the caller, which gives up after its timeout
			},
		},
		{
			name: "caller dies while the call is executed", spoil: first(held(executed, release)),
			state: "settled", arrives: 100, asks: 2, exact: true,
			during: func(t *testing.T, b *bank, _ int64) {
				t.Helper()
				await(t, executed)
				b.world.call(t)
			},
		},
		{
			name: "caller dies with the answer in its hands", spoil: first(held(executed, release)),
			state: "settled", arrives: 100, asks: 2, exact: true,
			during: func(t *testing.T, b *bank, id int64) {
				t.Helper()
				await(t, executed)
				unlock := b.world.lock(t, `SELECT FROM remote_calls WHERE call_id = $1 FOR UPDATE`, id)
				let(t, release)
				b.world.waitBlocked(t, "DELETE FROM remote_calls")
				b.world.call(t)
				unlock()
			},
		},
	}
}

// cancelsTable has calls that are taken back.
func cancelsTable() []outcomeTest {
	executed, release := make(chan struct{}), make(chan struct{})
	return []outcomeTest{
		{
			name: "cancelled before it was sent", state: "cancelled", asks: 0, exact: true,
			before: func(t *testing.T, b *bank) {
				t.Helper()
				b.world.caller.kill()
			},
			during: func(t *testing.T, b *bank, id int64) {
				t.Helper()
				if err := cancelTransfer(t.Context(), b.world.pool, id); err != nil {
					t.Error(err)
				}
				b.world.call(t)
			},
		},
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
			name: "row deleted by hand while under way", spoil: first(held(executed, release)), state: "settled", arrives: 100, asks: 1, exact: true,
			during: func(t *testing.T, b *bank, id int64) {
				t.Helper()
				await(t, executed)
				if _, err := b.world.pool.Exec(t.Context(), `DELETE FROM remote_calls WHERE call_id = $1`, id); err != nil {
					t.Fatal(err)
				}
				let(t, release)
				clustertest.Until(t, "the answer came", func(context.Context) (bool, error) {
					return strings.Contains(b.world.caller.text(), fmt.Sprintf("the call was gone when its answer came\" call_id=%d", id)), nil
				}, b.world.caller.text)
				// No callback ran; the money arrived, so that a person settles it.
				done, err := b.world.pool.Exec(t.Context(), `UPDATE bank_transfers SET state = 'settled' WHERE call_id = $1 AND state = 'under way'`, id)
				if err != nil || done.RowsAffected() != 1 {
					t.Errorf("settled %d transfers by hand, %v", done.RowsAffected(), err)
				}
			},
		},
	}
}
