package model

import (
	"fmt"
	"strings"

	"github.com/postrider/postrider/tools/model/search"
)

// Note describes a step.
type Note struct {
	Who      uint8 // worker 1, 2, …; 0: nobody
	Did      string
	Record   Message // the message read, written, claimed or marked
	Expect   uint8   // for a write that is not Blind: the sequence that the last record must have
	Blind    bool
	Sequence uint8 // of the record read or stored
	Passed   Set   // the events that a claim passed
	Then     string
}

// Happening implements search.Note.
func (n Note) Happening() search.Happening { return search.Happening{Did: n.Did, Then: n.Then} }

// traceText returns the numbered steps, then the stream and the rows at their end.
func traceText(t []search.Step[State, Note]) string {
	var b strings.Builder
	for i, step := range t {
		fmt.Fprintf(&b, "%3d  %s\n", i+1, stepText(step))
	}
	if len(t) > 0 {
		end := t[len(t)-1].State
		fmt.Fprintf(&b, "     stream: %v\n     %v\n", end.Stream, end.Database.Partition)
	}
	return b.String()
}

// stepText returns one line: the worker, its epoch and its act.
func stepText(step search.Step[State, Note]) string {
	s := step.Note
	var b strings.Builder
	if s.Who != 0 {
		fmt.Fprintf(&b, "w%d", s.Who)
		if epoch := step.State.Workers[s.Who-1].Epoch; epoch != 0 {
			fmt.Fprintf(&b, "/e%d", epoch)
		}
		b.WriteByte(' ')
	}
	b.WriteString(s.Did)
	if s.Record.Kind != None || strings.HasPrefix(s.Did, "reads") {
		fmt.Fprintf(&b, " %v", s.Record)
	}
	if s.Record.Kind == Fence || s.Record.Kind == Watermark || s.Record.Kind == Batch {
		switch {
		case strings.HasPrefix(s.Did, "reads"):
			fmt.Fprintf(&b, " at %d", s.Sequence)
		case s.Blind:
			b.WriteString(" expecting nothing")
		default:
			fmt.Fprintf(&b, " expecting %d", s.Expect)
		}
	}
	if s.Passed != 0 {
		fmt.Fprintf(&b, ", passes %v", s.Passed)
	}
	if s.Then != "" {
		fmt.Fprintf(&b, "; %s", s.Then)
	}
	if s.Sequence != 0 && !strings.HasPrefix(s.Did, "reads") {
		fmt.Fprintf(&b, " (at %d)", s.Sequence)
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

// String returns the rows, and up to which record they are marked.
func (p Partition) String() string {
	return fmt.Sprintf("ready: %v, parked: %v, F: %d, cursor: %d", p.Ready, p.Parked, p.Fence, p.Delivered)
}

// String returns the kind and the content.
func (m Message) String() string {
	switch m.Kind {
	case Event:
		return m.Events.String()
	case Mark:
		failed := ""
		if m.Passed != 0 {
			failed = fmt.Sprintf(" parks %v", m.Passed)
		}
		return fmt.Sprintf("mark[e%d w%d %v%s up to %d]", m.Epoch, m.Owner, m.Events, failed, m.Upto)
	case Batch:
		return fmt.Sprintf("batch[e%d w%d names %v]", m.Epoch, m.Owner, m.Events)
	case Watermark:
		return fmt.Sprintf("watermark[e%d w%d names %v]", m.Epoch, m.Owner, m.Events)
	case Fence:
		return fmt.Sprintf("fence[e%d w%d]", m.Epoch, m.Owner)
	case None:
	}
	return "no record"
}
