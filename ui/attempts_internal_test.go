package ui

import (
	"log/slog"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

func wrong() bool { return false }

func right() bool { return true }

// The bucket of an address holds twenty guesses and gets one more each six
// seconds.
func TestAttemptsComeBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAttempts(slog.New(slog.DiscardHandler))
		for range loginBurst {
			if retry := a.try("peer", wrong); retry != 0 {
				t.Fatalf("a guess has to wait for %v", retry)
			}
		}
		if retry := a.try("peer", func() bool { t.Error("it was looked at"); return true }); retry != loginRefill {
			t.Errorf("retry after %v, want %v", retry, loginRefill)
		}
		if retry := a.try("other", right); retry != 0 {
			t.Errorf("another address has to wait for %v", retry)
		}
		<-time.After(loginRefill - time.Millisecond)
		if retry := a.try("peer", right); retry <= 0 || retry > 2*time.Millisecond {
			t.Errorf("retry after %v, want a millisecond", retry)
		}
		<-time.After(time.Millisecond)
		for range 3 { // right ones take nothing
			if retry := a.try("peer", right); retry != 0 {
				t.Errorf("a right one has to wait for %v", retry)
			}
		}
		if retry := a.try("peer", wrong); retry != 0 {
			t.Errorf("the next guess has to wait for %v", retry)
		}
		if retry := a.try("peer", wrong); retry != loginRefill {
			t.Errorf("the one after it may try in %v, want %v", retry, loginRefill)
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
