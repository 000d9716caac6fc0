package walk

import "github.com/postrider/postrider/tools/model/search"

// lose: the stream is made anew, or restored from an older copy. Its connections end with it, so that nothing that was sent to it arrives
// later, and owners take their partitions anew before they publish: Config.Zombies leaves this assumption out.
func (x *system) lose(s *State) {
	if s.Losses == x.Losses {
		return
	}
	lost := func(stream Stream, did string) {
		n := *s
		n.Losses++
		n.Stream = stream
		for place := maxLate - 1; place >= 0; place-- {
			if r := n.Late[place]; r != (Request{}) && r.Mark.Take == 0 {
				search.Release(n.Late[:], place)
			}
		}
		for w := range n.Workers {
			if me := &n.Workers[w]; me.At >= WriteRecord && me.At != Stand && !x.Zombies {
				*me = Worker{At: TakeRow, Epoch: me.Epoch, Takes: me.Takes}
			}
		}
		x.emit(n, Note{Did: did})
	}
	lost(Stream{Life: s.Stream.Life + 1}, "the stream is made anew")
	for length := range s.Stream.Len {
		if x.Remade {
			break
		}
		older := s.Stream
		older.Len = length
		clear(older.Log[length:])
		lost(older, "the stream is restored from an older copy")
	}
}

// report: the partition stands, until the lost events are queued again.
func (x *system) report(s *State, w uint8) {
	n := *s
	me, d := &n.Workers[w], &n.Database
	if d.Take != me.Take {
		x.retake(n, w, Note{Did: "finds a loss", Then: "the row is not its own"})
		return
	}
	d.Stands, d.Kept = true, n.kept()
	x.flush(&n)
	note := Note{Who: owner(w), Did: "finds a loss"}
	if x.HealBeside {
		me.From = d.Kept
		x.walked(n, w, me.Expect)
		return
	}
	me.At = Stand
	x.emit(n, note)
}

// kept returns the last position of the history that the stream still has.
func (s *State) kept() (kept uint8) {
	d := s.Database
	for at := uint8(1); at <= d.Position; at++ {
		for n, published := range d.At {
			if published != at {
				continue
			}
			if !s.Stream.holds(at, Message{Event: uint8(n + 1)}) {
				return kept
			}
			kept = at
		}
	}
	return kept
}

// waits: the owner of a partition that stands takes it anew behind the job.
func (x *system) waits(s *State, w uint8) {
	if !s.Database.Stands {
		x.retake(*s, w, Note{Did: "sees the partition free"})
	}
}

// heal: the job queues the events again, in pages of one, whoever runs it; at its end it sets the partition free.
func (x *system) heal(s *State) {
	if !s.Database.Stands {
		return
	}
	left := false
	for e := range x.Events {
		if s.Database.At[e] <= s.Database.Kept {
			continue
		}
		left = true
		n := *s
		n.Database.Ready |= search.Only(e + 1)
		n.Database.At[e] = 0
		x.emit(n, Note{Did: "the job queues", Events: search.Only(e + 1)})
	}
	if left && !x.EndEarly {
		return
	}
	n := *s
	d := &n.Database.Row
	d.Stands, d.Position, d.Last = false, d.Kept, Message{}
	for e, at := range d.At {
		if at == d.Kept && at > 0 {
			d.Last = Message{Event: uint8(e + 1)}
		}
	}
	if d.Kept = 0; x.EndAtTheEnd && n.Stream.Len > 0 {
		d.Position, d.Last = n.Stream.Len, n.Stream.Log[n.Stream.Len-1]
	}
	x.flush(&n)
	x.emit(n, Note{Did: "the job sets the partition free"})
}
