package web

import "time"

// Stream is the page of one stream: its events, each with its outcome.
type Stream struct {
	Shell
	// ID is the stream's.
	ID string
	// Rows are its events, the newest first.
	Rows []StreamRow
	// Standing is the lowest failed or dead row that blocks others; nil: none.
	Standing *MessageRow
	// Newer, Older, SearchedTo, SearchOn and Upwards are as in Messages.
	Newer, Older string
	SearchedTo   int64
	SearchOn     string
	Upwards      bool
}

// StreamRow is one event.
type StreamRow struct {
	MessageRow
	Version, Generation int64
	// Took is the time from recording to settlement, or the wait so far.
	Took time.Duration
	// Left and Width place Took between the page's oldest and newest time, in percent.
	Left, Width string
}

// Waits reports whether the event is not settled.
func (r StreamRow) Waits() bool { return r.Settled.Zero() }

// PlaceStream sets Left and Width of the rows, between their first time and now, or their last one where all are settled.
func PlaceStream(rows []StreamRow, now time.Time) {
	var first, last time.Time
	end := func(r StreamRow) time.Time {
		if r.Waits() {
			return now
		}
		return r.Settled.At
	}
	for _, r := range rows {
		if r.At.Zero() {
			continue
		}
		if first.IsZero() || r.At.At.Before(first) {
			first = r.At.At
		}
		if end(r).After(last) {
			last = end(r)
		}
	}
	const least = 0.7 // percent: a visible width
	for i, r := range rows {
		if r.At.Zero() {
			continue
		}
		rows[i].Took = max(0, end(r).Sub(r.At.At))
		whole := float64(max(last.Sub(first), 1))
		width := min(100, max(least, 100*float64(rows[i].Took)/whole))
		rows[i].Left, rows[i].Width = units(min(100-width, 100*float64(r.At.At.Sub(first))/whole)), units(width)
	}
}
