package faultproxy

import (
	"fmt"
	"strings"
	"sync/atomic"
)

// Counters count a proxy's acts on its connections.
type Counters struct {
	Connections       int64 // accepted
	FailedDials       int64 // connections to the server that failed
	Cut               int64 // connections reset, by hand or by the end of a blackhole
	HungUp            int64 // connections whose client's side was ended
	SwallowedBytes    int64 // lost in a blackhole
	ReleasedBytes     int64 // delivered late, after a hold
	CommitsBefore     int64 // connections cut before a commit
	CommitsAfter      int64 // connections cut after a commit
	DroppedMessages   int64 // swallowed on their way to the client
	CutAtAcks         int64 // connections cut in place of a message for the client
	CutAfterPublishes int64 // connections cut behind a message for the server
}

// String names the counts above 0.
func (c Counters) String() string {
	var words []string
	for _, one := range []struct {
		name  string
		value int64
	}{
		{"connections", c.Connections},
		{"failed dials", c.FailedDials},
		{"cut", c.Cut},
		{"hung up", c.HungUp},
		{"bytes swallowed", c.SwallowedBytes},
		{"bytes late", c.ReleasedBytes},
		{"cut before commit", c.CommitsBefore},
		{"cut after commit", c.CommitsAfter},
		{"messages dropped", c.DroppedMessages},
		{"cut at acknowledgement", c.CutAtAcks},
		{"cut after publish", c.CutAfterPublishes},
	} {
		if one.value != 0 {
			words = append(words, fmt.Sprintf("%s %d", one.name, one.value))
		}
	}
	return strings.Join(words, ", ")
}

type counters struct {
	connections, failedDials, cut, hungUp, swallowed, released atomic.Int64
	commitsBefore, commitsAfter                                atomic.Int64
	dropped, cutAtAcks, cutAfterPublishes                      atomic.Int64
}

// Counters returns the counts so far.
func (p *Proxy) Counters() Counters {
	c := &p.counters
	return Counters{
		Connections: c.connections.Load(), FailedDials: c.failedDials.Load(),
		Cut: c.cut.Load(), HungUp: c.hungUp.Load(),
		SwallowedBytes: c.swallowed.Load(), ReleasedBytes: c.released.Load(),
		CommitsBefore: c.commitsBefore.Load(), CommitsAfter: c.commitsAfter.Load(),
		DroppedMessages: c.dropped.Load(), CutAtAcks: c.cutAtAcks.Load(), CutAfterPublishes: c.cutAfterPublishes.Load(),
	}
}
