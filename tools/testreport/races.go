package main

import "strings"

// races keeps the race detector's text about a package. The detector writes beside the tests, so that its text counts as
// output of the test that wrote last, which may have passed long before.
type races struct {
	last   string // line
	inside bool
	text   strings.Builder
}

const (
	raceFrame  = "=================="
	raceTitle  = "WARNING: DATA RACE"
	mostOfRace = 64 << 10 // bytes; the first races say most
)

func (r *races) take(line string) {
	switch framed := strings.HasPrefix(line, raceFrame); {
	case !r.inside && strings.HasPrefix(line, raceTitle) && strings.HasPrefix(r.last, raceFrame):
		r.inside = true
		r.write(r.last)
		r.write(line)
	case r.inside:
		r.write(line)
		r.inside = !framed
	}
	r.last = line
}

func (r *races) write(line string) {
	if r.text.Len() < mostOfRace {
		r.text.WriteString(line)
	}
}

func (r *races) String() string { return r.text.String() }

func (r *report) racesOf(pkg string) *races {
	of := r.races[pkg]
	if of == nil {
		of = &races{}
		r.races[pkg] = of
	}
	return of
}
