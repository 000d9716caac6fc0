package main

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// outcomeTest is a line of the table of outcomes: what happens to one transfer of 100 to an account, and what becomes
// of it.
type outcomeTest struct {
	name    string
	spoil   fault // nil: nothing at the gate
	mortal  bool  // the receiver is a process of its own, to be killed
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

func TestOutcomes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, "--timeout=2s", "--first-backoff=10ms", "--longest-backoff=100ms", "--callback-attempts=3")
	banks := w.outcomes(t, "b", slices.Concat(answersTable(), crashesTable(), cancelsTable(), callbacksTable()))
	w.checkMoney(t, banks...)

	w.crash = &crash{dead: make(chan struct{}), alive: make(chan struct{})}
	banks = append(banks, w.outcomes(t, "c", callerTable())...)
	w.checkMoney(t, banks...)
}

// outcomes checks rows at the same time, each at a bank of its own: a target's fate is nothing to the others.
func (w *world) outcomes(t *testing.T, prefix string, tests []outcomeTest) []*bank {
	t.Helper()
	banks := make([]*bank, len(tests))
	var rows sync.WaitGroup
	for i, test := range tests {
		var m *mourner
		if w.crash != nil {
			m = w.crash.mourner()
		}
		rows.Go(func() {
			t.Run(test.name, func(t *testing.T) {
				if m != nil {
					defer m.buried()
					defer m.ready()
				}
				banks[i] = w.bankOf(t, test, fmt.Sprintf("%s%02d", prefix, i))
				banks[i].mourner = m
				test.check(t, w, banks[i])
			})
		})
	}
	if w.crash != nil {
		w.kill(t)
	}
	rows.Wait()
	return banks
}

func (w *world) bankOf(t *testing.T, test outcomeTest, name string) *bank {
	t.Helper()
	open := w.bank
	if test.mortal {
		open = w.mortal
	}
	b := open(t, name)
	b.gate.mu.Lock()
	defer b.gate.mu.Unlock()
	b.gate.spoil = test.spoil
	return b
}

func (o outcomeTest) check(t *testing.T, w *world, b *bank) {
	t.Helper()
	account := o.account
	if account == "" {
		account = "alice"
	}
	if o.before != nil {
		o.before(t, b)
	}
	id := b.transfer(t, account, 100)
	if o.during != nil {
		o.during(t, b, id)
	}
	w.waitState(t, id, o.state)
	if got := b.balance(t, "alice"); got != o.arrives {
		t.Errorf("alice has %d, want %d", got, o.arrives)
	}
	if asked := b.gate.asked.Load(); asked < o.asks || o.exact && asked != o.asks {
		t.Errorf("the target was asked %d times, want %d (exactly: %t)", asked, o.asks, o.exact)
	}
	// Whatever happened, the target's next call goes through.
	w.waitState(t, b.transfer(t, "bob", 5), "settled")
	if got := b.balance(t, "bob"); got != 5 {
		t.Errorf("bob has %d, want 5", got)
	}
}

// answersTable has what a target can say.
func answersTable() []outcomeTest {
	return []outcomeTest{
		{name: "success", state: "settled", arrives: 100, asks: 1, exact: true},
		{name: "422 by the procedure", account: "nobody", state: "refunded", asks: 1, exact: true},
		{name: "402 by the receiver", spoil: first(named(402)), state: "refunded", asks: 1, exact: true},
		{
			name:  "422 and 402 that are not the receiver's, after it was executed",
			spoil: first(brokenOff, says(422), says(402, headerID, "999999999")), state: "settled", arrives: 100, asks: 4, exact: true,
		},
		{
			name:  "a status line that no database takes",
			spoil: first(raw("HTTP/1.1 500 \xff\x00\r\n\r\n")), state: "settled", arrives: 100, asks: 2, exact: true,
		},
		{
			name:  "400 that is no outdated id",
			spoil: first(says(400), says(400, headerOutdated, "true")), state: "settled", arrives: 100, asks: 3, exact: true,
		},
		{
			name:  "everything else",
			spoil: first(says(401), says(403), says(404), says(409), says(429), says(500), says(502), says(503), says(302, "Location", "/")),
			state: "settled", arrives: 100, asks: 10, exact: true,
		},
		{
			name:  "200 that is not the receiver's",
			spoil: first(says(200), says(200, headerID, "999999999")), state: "settled", arrives: 100, asks: 3, exact: true,
		},
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
