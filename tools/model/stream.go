package model

// last returns the last record and its sequence; with no record, the zero Message and 0.
func (s *Stream) last() (rec Message, sequence uint8) { return s.lastUpTo(s.Len) }

// lastUpTo returns the record that was the last one when the stream was that long.
func (s *Stream) lastUpTo(length uint8) (rec Message, sequence uint8) {
	for ; length > 0; length-- {
		if m := s.Log[length-1]; m.Kind != Event {
			return m, length
		}
	}
	return Message{}, 0
}

// named returns the events that the records behind one sequence and up to another name.
func (s *Stream) named(behind, upto uint8) (all Set) {
	for at := behind; at < upto; at++ {
		if s.Log[at].Kind == Watermark {
			all |= s.Log[at].Events
		}
		if s.Log[at].Kind == Batch {
			all |= s.held(at + 1)
		}
	}
	return all
}

// held returns the events that the batch's record at a sequence names and that lie directly behind it.
func (s *Stream) held(sequence uint8) (all Set) {
	for at := sequence; at < s.Len && s.Log[at].Kind == Event && s.Log[at].Events&s.Log[sequence-1].Events != 0; at++ {
		all |= s.Log[at].Events
	}
	return all
}

// Answer is the broker's to a write. An answer that does not arrive is none of these.
type Answer uint8

// The answers.
const (
	Stored  Answer = iota // ok(seq)
	Refused               // 10071: another record is the last one
	Outside               // not an answer: the log of the model has no room
)

// write stores the record and the events, or nothing. It compares and stores in one step, as the leader of a
// stream does under its lock. The sequence is the record's.
func (s *Stream) write(r Request) (answer Answer, sequence uint8) {
	if _, last := s.last(); !r.Blind && r.Expect != last {
		return Refused, 0
	}
	if s.Len+r.Events.Size()+1 > maxLog {
		return Outside, 0
	}
	if r.Record.Kind != None {
		s.append(r.Record)
	}
	sequence = s.Len
	for rest := r.Events; rest != 0; rest &^= rest.First(1) {
		s.append(Message{Kind: Event, Epoch: r.Record.Epoch, Owner: r.Record.Owner, Events: rest.First(1)})
	}
	return Stored, sequence
}

// met returns the events that the announcement at a sequence names and that lie behind it, up to another one.
func (s *Stream) met(after, upto uint8) (all Set) {
	for at := after; at < upto; at++ {
		if m := s.Log[at]; m.Kind == Event {
			all |= m.Events & s.Log[after-1].Events
		}
	}
	return all
}

func (s *Stream) append(m Message) {
	s.Log[s.Len] = m
	s.Len++
}

// messages returns the log.
func (s *Stream) messages() []Message { return s.Log[:s.Len] }

// stored returns the events that are in the stream.
func (s *Stream) stored() (all Set) {
	for _, m := range s.messages() {
		if m.Kind == Event {
			all |= m.Events
		}
	}
	return all
}
