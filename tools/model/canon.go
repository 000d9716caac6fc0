package model

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// canon writes two states alike if they differ only in what no step can tell apart:
//
//   - which worker is which. An epoch has one owner for ever, so that comparing owner and epoch is comparing epochs.
//     Not so if marks compare owners alone: then every worker keeps its name.
//   - requests in the network that can only be refused: the stream is past their expectation or the lease row past their
//     epoch; and marks whose rows are gone for good.
type canon struct {
	named bool // workers keep their names
	exact bool // nothing is alike: for the test of this very reduction
	key   []byte
}

// Key implements search.System.
func (x *system) Key(s *State, key []byte) []byte { return x.canon.of(s, key) }

func (c *canon) of(s *State, key []byte) []byte {
	c.key = key
	c.database(s.Database)
	c.add(s.Stream.Len)
	for _, m := range s.Stream.messages() {
		c.message(m)
	}
	workers := s.Workers
	if !c.named && !c.exact {
		slices.SortFunc(workers[:], func(a, b Worker) int { return cmp.Compare(a.Epoch, b.Epoch) })
	}
	for _, w := range workers {
		c.add(byte(w.At), w.Epoch, w.Take, w.Expect, w.Batch, byte(w.Claimed), byte(w.Stored), byte(w.Events), byte(w.Aside))
		c.message(w.Known)
	}
	c.late(s)
	return c.key
}

func (c *canon) add(bytes ...byte) { c.key = append(c.key, bytes...) }

func (c *canon) database(d Database) {
	flags := byte(0)
	for i, set := range []bool{d.Owner == 0, d.Expired, d.Trespassed} {
		if set {
			flags |= 1 << i
		}
	}
	c.add(c.owner(d.Owner), d.Epoch, flags, byte(d.Rows), byte(d.Durable))
}

func (c *canon) owner(o uint8) uint8 {
	if c.named || c.exact {
		return o
	}
	return 0
}

func (c *canon) message(m Message) {
	c.add(byte(m.Kind), m.Epoch, c.owner(m.Owner), m.Take, m.Batch, byte(m.Events))
}

// late writes the set of requests in one order.
func (c *canon) late(s *State) {
	_, last := s.Stream.last()
	var packed [maxLate]uint64
	count := 0
	for _, r := range s.Late {
		if r == (Request{}) {
			break
		}
		if !c.exact && c.idle(r, s, last) {
			continue
		}
		m := r.Record
		kind := byte(m.Kind)
		if r.Blind {
			kind += 128
		}
		packed[count] = binary.BigEndian.Uint64([]byte{
			kind, m.Epoch<<4 | c.owner(m.Owner), m.Take, m.Batch, byte(m.Events), byte(r.Events), r.Expect, 0,
		})
		count++
	}
	slices.Sort(packed[:count])
	for _, p := range packed[:count] {
		c.key = binary.BigEndian.AppendUint64(c.key, p)
	}
}

// idle reports whether the arrival of the request can never change anything any more.
func (c *canon) idle(r Request, s *State, last uint8) bool {
	if r.Record.Kind == Mark {
		return !c.named && r.Record.Epoch != s.Database.Epoch || r.Record.Events&s.Database.Durable == 0
	}
	return !r.Blind && r.Expect != last
}
