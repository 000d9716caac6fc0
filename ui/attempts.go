package ui

import (
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// bound is how many wrong guesses at once are looked at, and when there is one more.
type bound struct {
	burst  float64
	refill time.Duration
}

var (
	// ofName is for the wrong passwords of one user from one address.
	ofName = bound{20, 6 * time.Second}
	// ofAddress is for what names no user: tokens, and the names of nobody. It is higher, since all who come through a proxy share it.
	ofAddress = bound{200, 600 * time.Millisecond}
)

// knownPeers is how many of each are remembered.
const knownPeers = 4096

// attempts slows down whoever guesses credentials: a token bucket for each user at each address, and two for the rest of an address, of
// which every wrong guess takes one. While it is empty nothing is compared, so that guesses tell nothing, not even a right one. Guesses at
// one user hold up no other, and what names nobody holds up no user at all: those who come through a proxy share its address.
type attempts struct {
	log *slog.Logger

	mu    sync.Mutex
	peers map[guessed]*lru.Cache[string, bucket]
}

// guessed is what a guess is at. Each kind is remembered apart, so that names made up drive out no user's bucket.
type guessed int

const (
	guessedUser guessed = iota
	guessedNobody
	guessedToken
)

type bucket struct {
	tokens float64
	at     time.Time
}

func newAttempts(log *slog.Logger) *attempts {
	a := &attempts{log: log, peers: map[guessed]*lru.Cache[string, bucket]{}}
	for _, kind := range []guessed{guessedUser, guessedNobody, guessedToken} {
		peers, err := lru.New[string, bucket](knownPeers)
		if err != nil { // only for a size that is not positive
			panic(err)
		}
		a.peers[kind] = peers
	}
	return a
}

// try lets check look at what the peer sent, and returns how long the peer has to wait when it was not looked at. The lock is held
// meanwhile, so that guesses sent at once do not all find the same token; a check takes a microsecond.
func (a *attempts) try(peer string, kind guessed, name string, check func() bool) (retry time.Duration) {
	limit, key := ofAddress, peer
	if kind == guessedUser {
		limit, key = ofName, peer+" "+name // no address holds a space
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	b, known := a.peers[kind].Get(key)
	if !known {
		b = bucket{tokens: limit.burst, at: now}
	}
	b.tokens = min(limit.burst, b.tokens+now.Sub(b.at).Seconds()/limit.refill.Seconds())
	b.at = now
	if b.tokens < 1 {
		return time.Duration((1 - b.tokens) * float64(limit.refill))
	}
	if check() {
		return 0
	}
	if b.tokens--; b.tokens < 1 {
		a.log.Warn("monitor: too many wrong credentials from one address", logRemote, peer)
	}
	a.peers[kind].Add(key, b)
	return 0
}

// peer is the address that the connection came from; of IPv6 the network, since a host has as many addresses as it likes.
func peer(r *http.Request) string { return peerOf(r.RemoteAddr) }

func peerOf(remote string) string {
	address, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	from := address.Addr().Unmap()
	const network = 64
	if prefix, err := from.WithZone("").Prefix(network); from.Is6() && err == nil {
		return prefix.String()
	}
	return from.String()
}
