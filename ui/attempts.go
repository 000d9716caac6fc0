package ui

import (
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// An address has so many wrong passwords or tokens at once, and gets one more
// each time that passes.
const (
	loginBurst  = 20
	loginRefill = 6 * time.Second
	// knownPeers is how many addresses are remembered.
	knownPeers = 4096
)

// attempts slows down whoever guesses credentials: a token bucket for each
// address, of which every wrong guess takes one. While it is empty nothing is
// compared, so that guesses tell nothing, not even a right one.
type attempts struct {
	log *slog.Logger

	mu    sync.Mutex
	peers *lru.Cache[string, bucket]
}

type bucket struct {
	tokens float64
	at     time.Time
}

func newAttempts(log *slog.Logger) *attempts {
	peers, err := lru.New[string, bucket](knownPeers)
	if err != nil { // only for a size that is not positive
		panic(err)
	}
	return &attempts{log: log, peers: peers}
}

// try lets check look at what the peer sent, and returns how long the peer has
// to wait when it was not looked at. The lock is held meanwhile, so that guesses
// sent at once do not all find the same token; a check takes a microsecond.
func (a *attempts) try(peer string, check func() bool) (retry time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	b, known := a.peers.Get(peer)
	if !known {
		b = bucket{tokens: loginBurst, at: now}
	}
	b.tokens = min(loginBurst, b.tokens+now.Sub(b.at).Seconds()/loginRefill.Seconds())
	b.at = now
	if b.tokens < 1 {
		return time.Duration((1 - b.tokens) * float64(loginRefill))
	}
	if check() {
		return 0
	}
	if b.tokens--; b.tokens < 1 {
		a.log.Warn("monitor: too many wrong credentials from one address", logRemote, peer)
	}
	a.peers.Add(peer, b)
	return 0
}

// peer is the address that the connection came from; of IPv6 the network, since
// a host has as many addresses as it likes.
func peer(r *http.Request) string {
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	from := address.Addr().Unmap()
	const network = 64
	if prefix, err := from.WithZone("").Prefix(network); from.Is6() && err == nil {
		return prefix.String()
	}
	return from.String()
}
