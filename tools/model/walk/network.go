package walk

import "github.com/postrider/postrider/tools/model/search"

// reaction changes the sender of a write by the answer, or by there being none.
type reaction struct {
	stored  func(n *State, sequence uint8)
	refused func(n *State)
	unknown func(n *State)
}

// send emits each outcome of a write to the stream: it arrives and is answered; it arrives and the answer is lost; the
// network holds it, and the sender gives up waiting. A write that the network never releases has never arrived.
func (x *system) send(s *State, r Request, then reaction) {
	n := *s
	answer, sequence := x.write(&n, r)
	unknown := n
	note := Note{Who: r.By.Owner, Did: "sends", Request: r, Sequence: sequence}
	switch answer {
	case Outside:
		x.truncated = true
		return
	case Refused:
		then.refused(&n)
		note.Then = "refused"
	case Stored:
		then.stored(&n, sequence)
		note.Then = "stored"
	}
	x.emit(n, note)
	note.Then = "no answer, though " + note.Then
	then.unknown(&unknown)
	x.emit(unknown, note)

	held := *s
	then.unknown(&held)
	x.hold(held, r)
}

// hold emits the state in which the network keeps the request.
func (x *system) hold(n State, r Request) {
	if !search.Hold(n.Late[:], r) {
		x.truncated = true
		return
	}
	x.emit(n, Note{Who: r.By.Owner, Did: "sends", Request: r, Then: "no answer, the bytes are held up"})
}

// deliver emits the late arrival of each request that the network holds. Nobody waits for its answer.
func (x *system) deliver(s *State) {
	for place := 0; place < maxLate && s.Late[place] != (Request{}); place++ {
		n := *s
		r := search.Release(n.Late[:], place)
		note := Note{Did: "late bytes arrive:", Request: r, Then: "refused"}
		if r.Mark.Take != 0 {
			if x.mark(&n.Database.Row, r.Mark) {
				note.Then = "done"
			}
			x.emit(n, note)
			continue
		}
		answer, sequence := x.write(&n, r)
		if answer == Outside {
			x.truncated = true
			continue
		}
		if answer == Stored {
			note.Then, note.Sequence = "stored", sequence
		}
		x.emit(n, note)
	}
}

// read calls see with each possible result of a read of the last record: the last one or, from a server that lags, any
// earlier one, including none.
func (x *system) read(s *State, see func(rec Message, sequence uint8, did string)) {
	rec, sequence := s.Stream.record(s.Stream.Len)
	see(rec, sequence, "reads")
	for x.StaleReads && sequence > 0 {
		rec, sequence = s.Stream.record(sequence - 1)
		see(rec, sequence, "reads stale")
	}
}
