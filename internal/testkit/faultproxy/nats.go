package faultproxy

import (
	"bytes"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// NATS is a proxy that follows the NATS client protocol, without encryption.
type NATS struct {
	*Proxy
	original  *url.URL
	acks      armed[func(Message) bool]
	publishes armed[func(Message) bool]

	mu    sync.Mutex
	drops map[*Drop]struct{}
}

// Message is a message as it is on the wire. Its bytes may be looked at only until match returns.
type Message struct {
	Subject string
	Reply   string
	Header  []byte // with its version line; nil without headers
	Payload []byte
}

// Get returns the first value of a header, "" without one. Names are compared as they are written.
func (m Message) Get(name string) string {
	for line := range bytes.SplitSeq(m.Header, []byte("\r\n")) {
		if key, value, found := bytes.Cut(line, []byte(":")); found && string(key) == name {
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}

// PubAck matches JetStream's acknowledgements of stored messages and batches.
func PubAck(m Message) bool {
	return strings.HasPrefix(m.Subject, "_INBOX.") && bytes.HasPrefix(m.Payload, []byte(`{"stream":`))
}

// StartNATS opens a proxy for the server of this nats:// URL, one node's. It ends with the test.
func StartNATS(t testing.TB, serverURL string) *NATS {
	t.Helper()
	original, target, err := parseTarget(serverURL, 4222, "nats")
	if err != nil {
		t.Fatalf("faultproxy: %v", err)
	}
	n := &NATS{Proxy: create(t, target), original: original, drops: map[*Drop]struct{}{}}
	n.protocol = n.follow
	n.begin()
	return n
}

// URL returns the server's URL by way of the proxy.
func (n *NATS) URL() string { return n.through(n.original) }

// CutAtAck resets the connection in the place of the first message from the server that matches: the client never gets
// it. Everything before it is sent first. Match is called by the proxy's goroutines and must not call the proxy.
func (n *NATS) CutAtAck(match func(Message) bool) *Trigger { return n.acks.add(match) }

// CutAfterPub resets the client's side behind the first message from the client that matches. The server gets the
// message whole, then the end of the stream. Match is called by the proxy's goroutines and must not call the proxy.
func (n *NATS) CutAfterPub(match func(Message) bool) *Trigger { return n.publishes.add(match) }

// Drop is a rule that swallows messages for the client.
type Drop struct {
	nats    *NATS
	match   func(Message) bool
	dropped atomic.Int64
}

// DropMessages swallows the messages from the server that match, until it is stopped. The rest of the stream stays
// whole. Match is called by the proxy's goroutines and must not call the proxy.
func (n *NATS) DropMessages(match func(Message) bool) *Drop {
	d := &Drop{nats: n, match: match}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drops[d] = struct{}{}
	return d
}

// Stop lets messages pass again and returns how many were dropped.
func (d *Drop) Stop() int {
	d.nats.mu.Lock()
	defer d.nats.mu.Unlock()
	delete(d.nats.drops, d)
	return int(d.dropped.Load())
}

// passesAll reports whether no message for the client can be dropped or cut at.
func (n *NATS) passesAll() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.drops) == 0 && n.acks.none()
}

func (n *NATS) swallows(m Message) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for d := range n.drops {
		if d.match(m) {
			d.dropped.Add(1)
			n.counters.dropped.Add(1)
			return true
		}
	}
	return false
}
