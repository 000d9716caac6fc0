package model

import "github.com/postrider/postrider/tools/model/search"

// reaction changes the sender of a write by the answer, or by its absence.
type reaction struct {
	stored  func(me *Worker, sequence uint8)
	refused func(me *Worker)
	unknown func(me *Worker)
}

// send emits each outcome of a write to the stream: it arrives and is answered; it arrives and the answer is lost; the
// network holds it, and the sender gives up waiting. A write that the network never releases has never arrived.
func (x *system) send(s *State, w uint8, r Request, then reaction) {
	n := *s
	answer, sequence := n.write(r)
	unknown := n
	note := Note{Who: owner(w), Did: "sends", Record: r.Record, Expect: r.Expect, Blind: r.Blind, Sequence: sequence}
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
	x.emit(n, note)
	note.Then = "no answer, though " + note.Then
	then.unknown(&unknown.Workers[w])
	x.emit(unknown, note)

	x.tear(r, func(first Request) {
		torn := *s
		if answer, _ := torn.write(first); answer == Stored {
			then.unknown(&torn.Workers[w])
			note.Then = "no answer, and torn"
			x.emit(torn, note)
		}
	})

	held := *s
	then.unknown(&held.Workers[w])
	x.hold(held, w, r)
}

// tear calls with each beginning of a batch: the broker came to a limit behind it.
func (x *system) tear(r Request, with func(first Request)) {
	if !x.Torn || r.Record.Kind != Batch {
		return
	}
	for n := range r.Events.Size() {
		first := r
		first.Events = r.Events.First(n)
		with(first)
	}
}

// hold emits the state in which the network keeps the request.
func (x *system) hold(n State, w uint8, r Request) {
	if !search.Hold(n.Late[:], r) {
		x.truncated = true
		return
	}
	x.emit(n, Note{Who: owner(w), Did: "sends", Record: r.Record, Expect: r.Expect, Blind: r.Blind, Then: "no answer, the bytes are held up"})
}

// deliver emits the late arrival of each request that the network holds. Nobody waits for its answer.
func (x *system) deliver(s *State) {
	for place := 0; place < maxLate && s.Late[place] != (Request{}); place++ {
		n := *s
		r := search.Release(n.Late[:], place)
		note := Note{Did: "late bytes arrive:", Record: r.Record, Expect: r.Expect, Blind: r.Blind, Then: "refused"}
		if r.Record.Kind == Mark {
			if x.mark(&n.Database, r.Record) {
				note.Then = "done"
			}
			x.emit(n, note)
			continue
		}
		x.tear(r, func(first Request) {
			torn := n
			if answer, _ := torn.write(first); answer == Stored {
				note.Then = "torn"
				x.emit(torn, note)
			}
		})
		answer, sequence := n.write(r)
		if answer == Outside {
			x.truncated = true
			continue
		}
		note.Then = "refused"
		if answer == Stored {
			note.Then, note.Sequence = "stored", sequence
		}
		x.emit(n, note)
	}
}

// read calls see with each possible result of a read of the last record: the last one or, from a server that lags, any
// earlier one, including none.
func (x *system) read(s *State, see func(rec Message, sequence uint8, did string)) {
	rec, sequence := s.Stream.last()
	see(rec, sequence, "reads")
	for x.StaleReads && sequence > 0 {
		rec, sequence = s.Stream.lastUpTo(sequence - 1)
		see(rec, sequence, "reads stale")
	}
}
