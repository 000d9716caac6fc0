package inbox

import (
	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// stream is a row of inbox_streams: what is known of one stream, and its lock.
type stream struct {
	key        int64
	version    int64
	eventID    uuid.UUID
	generation int
	partition  int
	sequence   int64
	epoch      int64
	blocked    bool
	changed    bool
}

// record is what was dealt with under one version.
type record struct {
	eventID uuid.UUID
	result  []byte
}

// known is everything that decides about a message.
type known struct {
	stream stream
	record *record
	// parked tells that this very event is parked already.
	parked bool
}

// verdict is what to do with a message.
type verdict int

const (
	runIt      verdict = iota + 1
	answerIt           // with what is recorded
	refuseIt           // too old
	parkIt             // behind what is parked
	keepParked         // it is parked already
	buryIt             // another event has its place
)

// decision is the verdict and what is odd.
type decision struct {
	verdict  verdict
	findings Finding
	missing  int64
}

// decide is the table in the package's documentation, row by row. It depends on nothing else.
func decide(order Order, k known, m message.Message) decision {
	s := k.stream
	d := decision{findings: oddities(s, m)}
	switch {
	case k.record != nil && k.record.eventID == m.EventID: // row 1
		d.verdict, d.findings = answerIt, d.findings&LowerEpoch
	case k.record == nil && m.Version == s.version && m.EventID == s.eventID: // row 2
		d.verdict, d.findings = answerIt, d.findings&LowerEpoch
	case k.parked: // row 3
		d.verdict = keepParked
	case k.record != nil, m.Version == s.version: // row 4
		d.verdict = buryIt
		d.findings |= Conflict
	case m.Version < s.version && order == OrderVersions: // row 5
		d.verdict = refuseIt
	case s.blocked: // row 6
		d.verdict = parkIt
	default: // rows 7 to 9
		d.verdict = runIt
		if d.findings.Has(Gap) {
			d.missing = m.Version - s.version - 1
		}
	}
	return d
}

// oddities compares a message with the last one of its stream.
func oddities(s stream, m message.Message) Finding {
	var f Finding
	if m.Version-1 > s.version { // this way round it cannot overflow
		f |= Gap
	}
	if s.version == 0 {
		return f
	}
	if m.Version < s.version || m.Generation == s.generation && m.Sequence < s.sequence {
		f |= Reversal
	}
	if m.Generation < s.generation {
		f |= LowerGeneration
	}
	if m.Partition == s.partition && m.Generation == s.generation && m.Epoch > 0 && m.Epoch < s.epoch {
		f |= LowerEpoch
	}
	return f
}

// move is what is known of the stream after the message was dealt with.
func (s *stream) move(m message.Message) {
	if m.Version <= s.version {
		return
	}
	s.version, s.eventID = m.Version, m.EventID
	s.generation, s.partition, s.sequence, s.epoch = m.Generation, m.Partition, m.Sequence, m.Epoch
	s.changed = true
}
