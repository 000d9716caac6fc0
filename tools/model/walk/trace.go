package walk

import (
	"fmt"
	"strings"

	"github.com/postrider/postrider/tools/model/search"
)

// Note describes a step.
type Note struct {
	Who      uint8 // worker 1, 2, …; 0: nobody
	Did      string
	Record   Message // that was read
	Request  Request // that was sent
	Events   Set     // that were claimed, found or queued
	Failed   Set
	Sequence uint8 // of the message read or stored
	Then     string
}

// Happening implements search.Note.
func (n Note) Happening() search.Happening { return search.Happening{Did: n.Did, Then: n.Then} }

// traceText returns the numbered steps, then the stream and the row at their end.
func traceText(t []search.Step[State, Note]) string {
	var b strings.Builder
	for i, step := range t {
		fmt.Fprintf(&b, "%3d  %s\n", i+1, stepText(step))
	}
	if len(t) > 0 {
		end := t[len(t)-1].State
		fmt.Fprintf(&b, "     stream: %v\n     %v\n", end.Stream, end.Database.Row)
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
	if strings.HasPrefix(s.Did, "reads") {
		fmt.Fprintf(&b, " %v at %d", s.Record, s.Sequence)
	}
	if s.Request != (Request{}) {
		fmt.Fprintf(&b, " %v", s.Request)
	}
	if s.Events|s.Failed != 0 || s.Did == "walks" {
		fmt.Fprintf(&b, " %v", s.Events)
	}
	if s.Failed != 0 {
		fmt.Fprintf(&b, ", %v fail", s.Failed)
	}
	if s.Then != "" {
		fmt.Fprintf(&b, "; %s", s.Then)
	}
	if s.Sequence != 0 && s.Request != (Request{}) {
		fmt.Fprintf(&b, " (at %d)", s.Sequence)
	}
	return b.String()
}

// String returns the write and its expectation.
func (r Request) String() string {
	if r.Mark.Take != 0 {
		return r.Mark.String()
	}
	sent := fmt.Sprint(r.Events)
	if r.Events == 0 {
		sent = r.By.String()
	}
	if r.Blind {
		return sent + " expecting nothing"
	}
	return fmt.Sprintf("%s expecting %d", sent, r.Expect)
}

// String returns the mark's name and content.
func (m Mark) String() string {
	failed := ""
	if m.Failed != 0 {
		failed = fmt.Sprintf(" parks %v", m.Failed)
	}
	return fmt.Sprintf("mark %d.%d[%v%s up to %d]", m.Take, m.Number, m.Events, failed, m.Upto)
}

// String returns all messages with their sequences.
func (s Stream) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "life %d:", s.Life)
	for i, m := range s.Log[:s.Len] {
		fmt.Fprintf(&b, "  %d:%v", i+1, m)
	}
	return b.String()
}

// String returns the rows, the history and the fence.
func (r Row) String() string {
	text := fmt.Sprintf("ready: %v, parked: %v, history: %v, take %d.%d, position %d", r.Ready, r.Parked, r.At, r.Take, r.Marks, r.Position)
	if r.Stands {
		text += fmt.Sprintf(", stands: kept up to %d", r.Kept)
	}
	return text
}

// String returns the event, or the record's content.
func (m Message) String() string {
	switch {
	case m.Event != 0:
		return search.Only(m.Event).String()
	case m.Epoch == 0:
		return "no record"
	}
	return fmt.Sprintf("record[e%d w%d take %d]", m.Epoch, m.Owner, m.Take)
}
