package web

import "time"

// Moment is a time with the time of its reading.
type Moment struct {
	At  time.Time
	Now time.Time
}

// Zero reports whether there is no such moment.
func (m Moment) Zero() bool { return m.At.IsZero() }

// Relative returns the time since the moment, or until it.
func (m Moment) Relative() string {
	switch d := m.Now.Sub(m.At); {
	case d < 0:
		return "in " + Duration(m.At.Sub(m.Now)) // not -d, since the least duration is its own negative
	default:
		return Duration(d) + " ago"
	}
}

// ISO returns the exact time for programs, Stamp for people.
func (m Moment) ISO() string { return iso(m.At) }

// Stamp returns the exact time in UTC, to the millisecond.
func (m Moment) Stamp() string { return m.At.UTC().Format("2006-01-02 15:04:05.000") + " UTC" }
