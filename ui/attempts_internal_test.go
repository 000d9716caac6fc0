package ui

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

func wrong() bool { return false }

func right() bool { return true }

// Twenty guesses at a user come at once, and then one each six seconds.
func TestAttemptsComeBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAttempts(slog.New(slog.DiscardHandler))
		try := func(peer string, check func() bool) time.Duration { return a.try(peer, guessedUser, "ann", check) }
		for range 20 {
			if retry := try("peer", wrong); retry != 0 {
				t.Fatalf("a guess has to wait for %v", retry)
			}
		}
		if retry := try("peer", func() bool { t.Error("it was looked at"); return true }); retry != ofName.refill {
			t.Errorf("retry after %v, want %v", retry, ofName.refill)
		}
		if retry := try("other", right); retry != 0 {
			t.Errorf("another address has to wait for %v", retry)
		}
		if retry := a.try("peer", guessedUser, "bob", right); retry != 0 {
			t.Errorf("another user has to wait for %v", retry)
		}
		<-time.After(ofName.refill - time.Millisecond)
		if retry := try("peer", right); retry <= 0 || retry > 2*time.Millisecond {
			t.Errorf("retry after %v, want a millisecond", retry)
		}
		<-time.After(time.Millisecond)
		for range 3 { // right ones take nothing
			if retry := try("peer", right); retry != 0 {
				t.Errorf("a right one has to wait for %v", retry)
			}
		}
		if retry := try("peer", wrong); retry != 0 {
			t.Errorf("the next guess has to wait for %v", retry)
		}
		if retry := try("peer", wrong); retry != ofName.refill {
			t.Errorf("the one after it may try in %v, want %v", retry, ofName.refill)
		}
	})
}

// Names of nobody have a bound of their own for the address, and drive no user out of what is remembered.
func TestNamesOfNobodyHoldUpNoUser(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAttempts(slog.New(slog.DiscardHandler))
		for range 20 {
			a.try("peer", guessedUser, "ann", wrong)
		}
		looked := 0
		for n := range 2 * knownPeers {
			a.try("peer", guessedNobody, fmt.Sprint(n), func() bool { looked++; return false })
		}
		if looked != 200 {
			t.Errorf("%d guesses of an address were looked at, want 200", looked)
		}
		if retry := a.try("peer", guessedUser, "ann", right); retry != ofName.refill {
			t.Errorf("the guesses at a user were forgotten: retry after %v", retry)
		}
		if a.try("peer", guessedUser, "bob", right) != 0 || a.try("peer", guessedToken, "", right) != 0 {
			t.Error("guesses at nobody hold up a user or a token")
		}
	})
}

// Addresses that one host can choose among count as one.
func TestPeers(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"10.1.2.3:80": "10.1.2.3", "[::ffff:10.1.2.3]:80": "10.1.2.3", "[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1:2::/64",
		"[2001:db8:1:2:ffff::1]:2": "2001:db8:1:2::/64", "[fe80::1%eth0]:3": "fe80::/64", "@": "@",
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = remote
		if got := peer(r); got != want {
			t.Errorf("%s is %s, want %s", remote, got, want)
		}
	}
}
