package walk

import (
	"slices"

	"github.com/postrider/postrider/tools/model/search"
)

// Key implements search.System. It writes two states alike if no step can tell them apart. They may differ in:
//
//   - the names of takeovers: only whether two are the same matters.
//   - requests in the network that can only be refused: the stream is past their expectation, or the row, and what a crash leaves of it,
//     past the mark.
func (x *system) Key(s *State, key []byte) []byte {
	c := canon{system: x, state: s, key: key}
	d := &s.Database
	c.add(s.Acquired, s.Losses, byte(s.Passed), search.Flags(d.Expired, s.Disordered), s.Stream.Life, s.Stream.Len)
	if x.exact {
		c.add(s.Taken)
	}
	for _, r := range []*Row{&d.Row, &d.Durable} {
		c.add(r.Owner, r.Epoch, c.name(r.Take), r.Marks, r.Position, search.Flags(r.Stands), r.Kept, byte(r.Ready), byte(r.Parked))
		c.message(r.Last)
		c.add(r.At[:]...)
	}
	for i := range x.Workers {
		w := &s.Workers[i]
		if c.add(byte(w.At)); w.At == Idle {
			continue
		}
		c.add(w.Epoch, w.Takes, c.name(w.Take), w.Marks, w.From, w.Expect, byte(w.Claimed), byte(w.Retried), byte(w.Pending), byte(w.Failed), w.Upto)
		if x.exact || x.LifeInSubject {
			c.add(w.Life)
		}
		c.message(w.Known)
		c.message(w.Last)
		c.add(w.Where[:]...)
		c.mark(w.Asked)
	}
	for _, m := range s.Stream.Log[:s.Stream.Len] {
		c.message(m)
	}
	c.late()
	return c.key
}

// canon is a key in the making.
type canon struct {
	*system

	state *State
	key   []byte
	names [32]uint8 // of takeovers, in the order in which they are met
	met   uint8
}

func (c *canon) add(bytes ...byte) { c.key = append(c.key, bytes...) }

func (c *canon) name(take uint8) uint8 {
	if take == 0 || c.exact {
		return take
	}
	if c.names[take] == 0 {
		c.met++
		c.names[take] = c.met
	}
	return c.names[take]
}

func (c *canon) message(m Message) { c.add(m.Event, m.Epoch, m.Owner, c.name(m.Take)) }

func (c *canon) mark(m Mark) {
	c.add(c.name(m.Take), m.Number, byte(m.Events), byte(m.Failed), m.Upto)
	c.message(m.Last)
	c.add(m.At[:]...)
}

// late writes the set of requests in one order.
func (c *canon) late() {
	var places [maxLate][]byte
	count, head := 0, c.key
	var room [maxLate * 32]byte
	rest := room[:0]
	for _, r := range c.state.Late {
		if r == (Request{}) {
			break
		}
		if !c.exact && c.idle(r) {
			continue
		}
		c.key = rest
		c.message(r.By)
		c.add(byte(r.Events), r.Expect, search.Flags(r.Blind))
		if c.exact || c.LifeInSubject {
			c.add(r.Life)
		}
		c.mark(r.Mark)
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

// idle finds a request whose arrival can never change anything any more.
func (c *canon) idle(r Request) bool {
	if r.Mark.Take == 0 {
		_, last := c.state.Stream.record(c.state.Stream.Len)
		return !r.Blind && r.Expect != last
	}
	if c.MarkComparesNothing || c.TakeAlone || c.SameTake {
		return false
	}
	for _, d := range []*Row{&c.state.Database.Row, &c.state.Database.Durable} {
		if d.Take == r.Mark.Take && d.Marks <= r.Mark.Number {
			return false
		}
	}
	return true
}
