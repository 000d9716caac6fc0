package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/slow"
)

// Everything dies at random while transfers go on: the money adds up and each transfer has its outcome.
func TestStorm(t *testing.T) {
	t.Parallel()
	storm(t, 40)
}

func TestLongStorm(t *testing.T) { //nolint:paralleltest // fills the machine
	slow.Test(t)
	storm(t, 400)
}

func storm(t *testing.T, transfers int) {
	t.Helper()
	w := newWorld(t, 2, "--timeout=500ms", "--first-backoff=10ms", "--longest-backoff=100ms")
	banks := []*bank{w.mortal(t, "north"), w.mortal(t, "south"), w.mortal(t, "east")}
	for _, b := range banks {
		b.gate.to(b.gate.backend, func(n int, g *gate, rw http.ResponseWriter, r *http.Request, body []byte) {
			switch n % 5 {
			case 0:
				g.forward(r, body) // executed, and the answer lost
				panic(http.ErrAbortHandler)
			case 1:
				panic(http.ErrAbortHandler)
			default:
				through(n, g, rw, r, body)
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	want := map[string]int64{}
	for i := range transfers {
		b := banks[random.IntN(len(banks))]
		account := "alice"
		if i%10 == 9 {
			account = "nobody"
		} else {
			want[b.name] += int64(max(i, 1))
		}
		b.transfer(t, account, int64(max(i, 1)))
		switch i % 40 {
		case 11:
			w.call(t)
		case 31:
			b.restart(t)
		}
		if i%6 == 0 {
			clustertest.Until(t, "some are finished", func(ctx context.Context) (ok bool, err error) {
				err = w.pool.QueryRow(ctx, `SELECT count(*) < 12 FROM remote_calls`).Scan(&ok)
				return ok, err
			}, w.caller.text)
		}
	}
	clustertest.Until(t, "all calls are finished", func(ctx context.Context) (ok bool, err error) {
		err = w.pool.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM remote_calls)`).Scan(&ok)
		return ok, err
	}, w.caller.text)
	w.checkMoney(t, banks...)
	for _, b := range banks {
		if got := b.balance(t, "alice"); got != want[b.name] {
			t.Errorf("%s has %d, want %d", b.name, got, want[b.name])
		}
	}
	settled := w.cluster.Count(t, `SELECT count(*) FROM bank_transfers WHERE state = 'settled'`)
	refunded := w.cluster.Count(t, `SELECT count(*) FROM bank_transfers WHERE state = 'refunded'`)
	if settled != transfers*9/10 || refunded != transfers/10 {
		t.Errorf("%d settled and %d refunded of %d", settled, refunded, transfers)
	}
	asked := int64(0)
	for _, b := range banks {
		asked += b.gate.asked.Load()
	}
	t.Logf("%d transfers took %d requests", transfers, asked)
}
