package ui

import (
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// bound is a token bucket's size in wrong guesses, and the time until it gains one.
type bound struct {
	burst  float64
	refill time.Duration
}

var (
	// ofName is for the wrong passwords of one user from one address.
	ofName = bound{20, 6 * time.Second}
	// ofAddress is for tokens and unknown names. It is higher, since all clients of a proxy share it.
	ofAddress = bound{200, 600 * time.Millisecond}
)

// knownPeers bounds the buckets of each kind.
const knownPeers = 4096

// attempts slows guesses of credentials: a token bucket for each user at each address, and two for the rest of an address. A wrong guess
// takes one token. While a bucket is empty nothing is compared, so that even a right guess reveals nothing. Guesses at one user delay no
// other, and unknown names delay no user: clients of a proxy share its address.
type attempts struct {
	log *slog.Logger

	mu    sync.Mutex
	peers map[guessed]*lru.Cache[string, bucket]
}

// guessed is the kind of a guess. Each has its own cache, so that made-up names evict no user's bucket.
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
		if err != nil { // lru fails only for a size below 1
			panic(err)
		}
		a.peers[kind] = peers
	}
	return a
}

// try runs check, or returns how long the peer has to wait for it. It holds the lock meanwhile, so that simultaneous guesses do not share a
// token; a check takes a microsecond.
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

// peer returns the connection's remote address; of IPv6 the network, since a host has as many addresses as it likes.
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
