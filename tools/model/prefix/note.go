package prefix

import (
	"fmt"
	"strings"

	"github.com/postrider/postrider/tools/model/search"
)

// Note says what happened in a step.
type Note struct {
	Who, Epoch uint8 // worker 1, 2, …, and that of its lease afterwards; 0: nobody
	Did        string
	Number     uint8
	Events     Set
	Record     Message // what was read, written or marked
	Expect     uint8   // for a write that is not Blind: the sequence that the last record must have
	Blind      bool
	Sequence   uint8 // of the record that was read or stored
	Then       string
}

// Happening implements search.Note.
func (n Note) Happening() search.Happening { return search.Happening{Did: n.Did, Then: n.Then} }

// String returns one line: who, under which epoch, did what.
func (n Note) String() string {
	var b strings.Builder
	if n.Who != 0 {
		fmt.Fprintf(&b, "w%d", n.Who)
		if n.Epoch != 0 {
			fmt.Fprintf(&b, "/e%d", n.Epoch)
		}
		b.WriteByte(' ')
	}
	b.WriteString(n.Did)
	reads := strings.HasPrefix(n.Did, "reads") && n.Number == 0
	if n.Number != 0 {
		fmt.Fprintf(&b, " %d", n.Number)
	}
	if n.Events != 0 {
		fmt.Fprintf(&b, " %v", n.Events)
	}
	if n.Record.Kind != None || reads {
		fmt.Fprintf(&b, " %v", n.Record)
	}
	if n.Record.Kind == Fence || n.Record.Kind == Watermark {
		switch {
		case reads:
			fmt.Fprintf(&b, " at %d", n.Sequence)
		case n.Blind:
			b.WriteString(" expecting nothing")
		default:
			fmt.Fprintf(&b, " expecting %d", n.Expect)
		}
	}
	if n.Then != "" {
		fmt.Fprintf(&b, "; %s", n.Then)
	}
	if n.Sequence != 0 && !reads {
		fmt.Fprintf(&b, " (at %d)", n.Sequence)
	}
	return b.String()
}

// traceText returns the numbered steps, then the stream and the partition at their end.
func traceText(t []search.Step[State, Note]) string {
	var b strings.Builder
	for i, step := range t {
		fmt.Fprintf(&b, "%3d  %s\n", i+1, step.Note)
	}
	if len(t) > 0 {
		end := t[len(t)-1].State
		d := end.Database
		fmt.Fprintf(&b, "     stream: %v\n     delivered %d, parked %v, ready %v\n", end.Stream, d.Delivered, d.Parked, d.Ready)
	}
	return b.String()
}

// String returns all messages with their sequences.
func (s Stream) String() string {
	var parts []string
	for i, m := range s.messages() {
		parts = append(parts, fmt.Sprintf("%d:%v", i+1, m))
	}
	if parts == nil {
		return "empty"
	}
	return strings.Join(parts, "  ")
}

// String returns the kind and what the message says.
func (m Message) String() string {
	switch m.Kind {
	case Event:
		return fmt.Sprint(m.Event)
	case Mark:
		return fmt.Sprintf("mark[e%d w%d %v]", m.Epoch, m.Owner, m.Progress)
	case Watermark:
		return fmt.Sprintf("watermark[e%d w%d b%d %v]", m.Epoch, m.Owner, m.Batch, m.Progress)
	case Fence:
		return fmt.Sprintf("fence[e%d w%d %v]", m.Epoch, m.Owner, m.Progress)
	case None:
	}
	return "no record"
}

// String returns up to where, and the holes.
func (p Progress) String() string {
	if p.Holes == 0 {
		return fmt.Sprintf("up to %d", p.Upto)
	}
	return fmt.Sprintf("up to %d but %v", p.Upto, p.Holes)
}

// String returns the events in braces.
func (s Set) String() string {
	var parts []string
	for n := uint8(1); n <= maxEvents; n++ {
		if s&only(n) != 0 {
			parts = append(parts, fmt.Sprint(n))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}
