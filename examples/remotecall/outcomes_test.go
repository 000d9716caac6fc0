package main

import (
	"fmt"
	"slices"
	"testing"
)

// outcomeTest is a line of the table of outcomes: what happens to one transfer of 100 to an account, and what becomes
// of it.
type outcomeTest struct {
	name    string
	spoil   fault // nil: nothing at the gate
	account string
	// before happens before the transfer.
	before func(t *testing.T, b *bank)
	// during happens while the transfer is under way; the call is id.
	during func(t *testing.T, b *bank, id int64)

	state   string
	arrives int64 // what alice has in the end
	asks    int64 // least number of requests; exact is their exact number where it is known
	exact   bool
}

func TestOutcomes(t *testing.T) { //nolint:paralleltest // its processes fill the machine
	w := newWorld(t, 1, "--timeout=2s", "--first-backoff=10ms", "--longest-backoff=100ms", "--callback-attempts=3")
	tests := slices.Concat(answersTable(), crashesTable(), cancelsTable(), callbacksTable())
	var banks []*bank
	for _, test := range tests { //nolint:paralleltest // they share the caller, which some of them kill
		t.Run(test.name, func(t *testing.T) {
			b := w.bank(t, fmt.Sprintf("b%02d", len(banks)))
			banks = append(banks, b)
			b.gate.mu.Lock()
			b.gate.spoil = test.spoil
			b.gate.mu.Unlock()
			account := test.account
			if account == "" {
				account = "alice"
			}
			if test.before != nil {
				test.before(t, b)
			}
			id := b.transfer(t, account, 100)
			if test.during != nil {
				test.during(t, b, id)
			}
			w.waitState(t, id, test.state)
			if got := b.balance(t, "alice"); got != test.arrives {
				t.Errorf("alice has %d, want %d", got, test.arrives)
			}
			if asked := b.gate.asked.Load(); asked < test.asks || test.exact && asked != test.asks {
				t.Errorf("the target was asked %d times, want %d (exactly: %t)", asked, test.asks, test.exact)
			}
			// Whatever happened, the target's next call goes through.
			w.waitState(t, b.transfer(t, "bob", 5), "settled")
			if got := b.balance(t, "bob"); got != 5 {
				t.Errorf("bob has %d, want 5", got)
			}
			w.checkMoney(t, banks...)
		})
	}
}

// answersTable has what a target can say.
func answersTable() []outcomeTest {
	return []outcomeTest{
		{name: "success", state: "settled", arrives: 100, asks: 1, exact: true},
		{name: "422 by the procedure", account: "nobody", state: "refunded", asks: 1, exact: true},
		{name: "422 by something else", spoil: first(says(422)), state: "refunded", asks: 1, exact: true},
		{name: "402", spoil: first(says(402)), state: "refunded", asks: 1, exact: true},
		{name: "400 that is no outdated id", spoil: first(says(400), says(400, headerOutdated, "true")), state: "settled", arrives: 100, asks: 3, exact: true},
		{
			name:  "everything else",
			spoil: first(says(401), says(403), says(404), says(409), says(429), says(500), says(502), says(503), says(302, "Location", "/")),
			state: "settled", arrives: 100, asks: 10, exact: true,
		},
		{name: "200 that is not the receiver's", spoil: first(says(200), says(200, headerID, "1")), state: "settled", arrives: 100, asks: 3, exact: true},
		{name: "timeout before it was executed", spoil: first(swallowed), state: "settled", arrives: 100, asks: 2, exact: true},
		{name: "timeout after it was executed", spoil: first(unanswered), state: "settled", arrives: 100, asks: 2, exact: true},
		{name: "half an answer", spoil: first(brokenOff), state: "settled", arrives: 100, asks: 2, exact: true},
		{name: "duplicates at the same time", spoil: first(doubled), state: "settled", arrives: 100, asks: 1, exact: true},
		{name: "lower id", spoil: first(outrun), state: "unclear", asks: 1, exact: true, during: func(t *testing.T, b *bank, _ int64) {
			t.Helper()
			b.world.burn(t) // the next call's id is above the one that outran
		}},
	}
}
