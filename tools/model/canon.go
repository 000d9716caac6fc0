package model

import (
	"cmp"
	"slices"

	"github.com/postrider/postrider/tools/model/search"
)

// Key implements search.System. It writes two states alike if no step can tell them apart. They may differ in:
//
//   - the names of workers, unless a failover may give one epoch to two of them, or marks compare owners alone: else
//     comparing owner and epoch is comparing epochs.
//   - the name of a takeover, unless its worker may still have to know its fence.
//   - requests in the network that can only be refused: the stream is past their expectation, or the lease row past their
//     epoch; and marks that find everything as they would leave it.
func (x *system) Key(s *State, key []byte) []byte {
	c := canon{system: x, state: s, key: key, named: x.exact || x.Lagging || x.MarkWithoutEpoch}
	d := &s.Database
	c.add(s.Acquired, s.Stream.Len, byte(s.Passed), search.Flags(d.Expired, d.Trespassed, s.Disordered))
	if x.exact {
		c.add(s.Taken)
	}
	for _, p := range []Partition{d.Partition, d.Durable} {
		c.add(c.owner(p.Owner), p.Epoch, p.Fence, p.Delivered, byte(p.Ready), byte(p.Parked))
		if x.exact || x.Compare {
			c.add(p.Parks)
		}
	}
	for _, m := range s.Stream.messages() {
		c.message(m)
	}
	workers := s.Workers
	if !c.named {
		slices.SortFunc(workers[:], func(a, b Worker) int { return cmp.Compare(a.Epoch, b.Epoch) })
	}
	for _, w := range workers {
		if c.add(byte(w.At)); w.At == Idle {
			continue
		}
		c.add(w.Epoch, w.Takes, w.Expect, w.After, w.Cursor, byte(w.Sent), byte(w.Publish), byte(w.Retried), byte(w.Pending), byte(w.Passed), search.Flags(w.Stale))
		if x.exact || x.Compare || x.WalkFromMemory {
			c.add(w.Marked.Fence, w.Marked.Parks)
		}
		if x.exact {
			c.add(w.Take)
		}
	}
	c.late()
	return c.key
}

// canon is a key in the making.
type canon struct {
	*system

	state *State
	key   []byte
	named bool // workers keep their names
}

func (c *canon) add(bytes ...byte) { c.key = append(c.key, bytes...) }

func (c *canon) owner(o uint8) uint8 {
	if c.named || o == 0 {
		return o
	}
	return 1
}

func (c *canon) message(m Message) {
	if m.Kind == Fence && !c.exact {
		me := c.state.Workers[m.Owner-1]
		m.Take = search.Flags(m.Take == me.Take && me.At <= WriteFence)
	}
	c.add(byte(m.Kind), m.Epoch, c.owner(m.Owner), m.Take, m.After, byte(m.Events))
	if m.Kind == Mark {
		c.add(byte(m.Passed), byte(m.Retried), m.Upto, m.From.Fence, m.From.Parks)
	}
}

// late writes the set of requests in one order.
func (c *canon) late() {
	var places [maxLate][]byte
	count, head := 0, c.key
	var room [maxLate * 16]byte
	rest := room[:0]
	for _, r := range c.state.Late {
		if r == (Request{}) {
			break
		}
		if !c.exact && c.idle(r) {
			continue
		}
		c.key = rest
		c.message(r.Record)
		c.add(byte(r.Events), r.Expect, search.Flags(r.Blind))
		places[count] = c.key
		rest = c.key[len(c.key):]
		count++
	}
	c.key = head
	slices.SortFunc(places[:count], func(a, b []byte) int { return slices.Compare(a, b) })
	for _, p := range places[:count] {
		c.add(p...)
	}
}

// idle reports whether the arrival of the request can change nothing any more. A marked row does not come back without a
// crash, which ends all marks under way.
func (c *canon) idle(r Request) bool {
	m, d := r.Record, c.state.Database
	if m.Kind != Mark {
		_, last := c.state.Stream.last()
		return !r.Blind && r.Expect != last
	}
	if c.MarkWithoutEpoch || c.MarkOutlivesSession || c.Compare || c.ParkAgain {
		return false
	}
	before := d.Partition
	if !c.mark(&d, m) {
		return m.Epoch <= d.Epoch // a failover may have gone back behind that lease, so that it is given again
	}
	return d.Partition == before
}
