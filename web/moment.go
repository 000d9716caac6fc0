package web

import "time"

// Moment is a time beside the one it is read at.
type Moment struct {
	At  time.Time
	Now time.Time
}

// Zero tells whether there is no such moment.
func (m Moment) Zero() bool { return m.At.IsZero() }

// Relative is how long ago it was, or how far it lies ahead.
func (m Moment) Relative() string {
	switch d := m.Now.Sub(m.At); {
	case d < 0:
		return "in " + Duration(m.At.Sub(m.Now)) // not -d, which the least duration is itself
	default:
		return Duration(d) + " ago"
	}
}

// ISO is the exact time for programs, Stamp for people.
func (m Moment) ISO() string { return iso(m.At) }

// Stamp is the exact time in UTC, to the millisecond.
func (m Moment) Stamp() string { return m.At.UTC().Format("2006-01-02 15:04:05.000") + " UTC" }
