package walk

import "github.com/postrider/postrider/tools/model/search"

// record returns the last record that there was when the stream was that long, and its sequence; 0: there was none.
func (s *Stream) record(length uint8) (rec Message, sequence uint8) {
	for ; length > 0; length-- {
		if m := s.Log[length-1]; m.Event == 0 {
			return m, length
		}
	}
	return Message{}, 0
}

// holds compares a message with the one at the position.
func (s *Stream) holds(position uint8, m Message) bool {
	if position == 0 || position > s.Len {
		return position == 0
	}
	at := s.Log[position-1]
	return at == m || m.Event != 0 && at.Event == m.Event // its id identifies an event, whoever published it
}

// found returns the events behind one sequence and up to another, with their positions.
func (s *Stream) found(behind, upto uint8) (all Set, where [maxEvents]uint8) {
	for at := behind; at < min(upto, s.Len); at++ {
		if m := s.Log[at]; m.Event != 0 {
			all |= search.Only(m.Event)
			where[m.Event-1] = at + 1
		}
	}
	return all, where
}

// stored returns the events that are in the stream.
func (s *Stream) stored() Set {
	all, _ := s.found(0, s.Len)
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

// store stores all events, or the record, or nothing. It compares and stores in one step, as the leader of a
// stream does under its lock. The sequence is the last message's.
func (x *system) store(s *Stream, r Request) (answer Answer, sequence uint8) {
	_, last := s.record(s.Len)
	if x.LifeInSubject && r.Life != s.Life {
		last = 0
	}
	if !r.Blind && (r.Expect != last || r.Events != 0 && r.Expect == 0) {
		return Refused, 0
	}
	if s.Len+max(1, r.Events.Size()) > maxLog {
		return Outside, 0
	}
	put := func(n uint8) {
		s.Log[s.Len] = Message{Event: n, Epoch: r.By.Epoch, Owner: r.By.Owner, Take: r.By.Take}
		s.Len++
	}
	if r.Events == 0 {
		put(0)
	}
	r.Events.Each(put)
	return Stored, s.Len
}
