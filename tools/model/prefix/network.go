package prefix

import "github.com/postrider/postrider/tools/model/search"

// system emits the states that follow a state.
type system struct {
	Config
	Protocol

	take      func(State, Note)
	truncated bool
	exact     bool // no states count as one: for the test of just that
}

var _ search.System[State, Note] = (*system)(nil)

// Successors implements search.System, whoever makes the step.
func (x *system) Successors(s *State, emit func(State, Note)) (truncated bool) {
	x.truncated = false
	x.take = func(n State, note Note) {
		if n.Failovers == x.Failovers { // nothing goes back any more
			n.Database.Standby = n.Database.Partition
		}
		emit(n, note)
	}
	for w := range x.Workers {
		x.worker(s, w)
	}
	x.deliver(s)
	x.time(s)
	x.reclaim(s)
	x.fail(s)
	return x.truncated
}

// emit tells of a worker's step.
func (x *system) emit(n State, w uint8, note Note) {
	note.Who, note.Epoch = owner(w), n.Workers[w].Epoch
	x.take(n, note)
}

// reaction says what the sender of a write makes of the answer, or of there being none.
type reaction struct {
	stored  func(me *Worker, sequence uint8)
	refused func(me *Worker)
	unknown func(me *Worker)
}

// write emits what can become of a write to the stream: it arrives and is answered; it arrives and the answer is lost; the
// network holds it, and the sender gives up waiting. What the network never lets go has never arrived.
func (x *system) write(s *State, w uint8, r Request, then reaction) {
	n := *s
	answer, sequence := n.Stream.write(r)
	unknown := n
	note := Note{Did: "sends", Record: r.Record, Expect: r.Expect, Blind: r.Blind, Sequence: sequence}
	switch answer {
	case Outside:
		x.truncated = true
		return
	case Refused:
		then.refused(&n.Workers[w])
		note.Then = "refused"
	case Stored:
		then.stored(&n.Workers[w], sequence)
		note.Then = "stored"
	}
	x.emit(n, w, note)
	note.Then = "no answer, though " + note.Then
	then.unknown(&unknown.Workers[w])
	x.emit(unknown, w, note)

	held := *s
	then.unknown(&held.Workers[w])
	x.hold(held, w, r)
}

// hold emits the state in which the network keeps the request.
func (x *system) hold(n State, w uint8, r Request) {
	if r.Record.Kind == Mark && n.lateMarks() >= x.LateMarks {
		return
	}
	if !n.hold(r) {
		x.truncated = true
		return
	}
	x.emit(n, w, Note{Did: "sends", Record: r.Record, Expect: r.Expect, Blind: r.Blind, Then: "no answer, the bytes are held up"})
}

// deliver emits the late arrival of each request that the network holds. Nobody waits for its answer.
func (x *system) deliver(s *State) {
	for place := 0; place < maxLate && s.Late[place] != (Request{}); place++ {
		n := *s
		r := n.release(place)
		note := Note{Did: "late bytes arrive:", Record: r.Record, Expect: r.Expect, Blind: r.Blind, Then: "refused"}
		if r.Record.Kind == Mark {
			if n.Database.mark(r.Record, x.Protocol) {
				note.Then = "done"
			}
			x.take(n, note)
			continue
		}
		answer, sequence := n.Stream.write(r)
		if answer == Outside {
			x.truncated = true
			continue
		}
		if answer == Stored {
			note.Then, note.Sequence = "stored", sequence
		}
		x.take(n, note)
	}
}

// read calls see with everything that a read of the last record may return: the last one or, from a server that does
// not know better, any earlier one, including none.
func (x *system) read(s *State, see func(rec Message, sequence uint8, did string)) {
	rec, sequence := s.Stream.last()
	see(rec, sequence, "reads")
	for x.StaleReads && sequence > 0 {
		rec, sequence = s.Stream.lastUpTo(sequence - 1)
		see(rec, sequence, "reads stale")
	}
}

// time: the lease runs out.
func (x *system) time(s *State) {
	if n := *s; n.Database.Owner != 0 && !n.Database.Expired {
		n.Database.Expired = true
		x.take(n, Note{Did: "the lease runs out"})
	}
}

// reclaim: rows behind the cursor go, whoever does it.
func (x *system) reclaim(s *State) {
	if !x.Reclaim {
		return
	}
	n := *s
	upto := n.Database.Delivered
	if x.ReclaimAhead {
		for _, me := range s.Workers {
			upto = max(upto, me.Done.Upto)
		}
	}
	if n.Database.reclaim(upto); n.Database.Ready != s.Database.Ready {
		x.take(n, Note{Did: "rows are reclaimed up to", Number: upto})
	}
}

// flush: where the database may only crash, changes of the lease row are flushed, and with them whatever was committed
// before. An asynchronous standby waits for nothing.
func (x *system) flush(n *State) {
	if !x.Lagging {
		n.Database.Standby = n.Database.Partition
	}
}

// fail: the database goes back to what was flushed or what the standby has, a while ago, and the standby catches up. No
// session survives, but workers go on.
func (x *system) fail(s *State) {
	if s.Database.Standby == s.Database.Partition {
		return
	}
	n := *s
	n.Database.Standby = n.Database.Partition
	x.take(n, Note{Did: "the standby catches up"})
	if s.Failovers == x.Failovers {
		return
	}
	n = *s
	n.Failovers++
	n.Database.Partition, n.Database.Expired = n.Database.Standby, false
	for w := range n.Workers {
		me := &n.Workers[w]
		me.Dirty = me.Dirty || me.At >= Work
	}
	x.take(n, Note{Did: "the database fails over"})
}
