package web

import "time"

// Stream is the page of one stream's life: its events, and what became of each.
type Stream struct {
	Shell
	// ID is the stream's.
	ID string
	// Rows are its events, the newest first.
	Rows []StreamRow
	// Standing is the lowest that failed or died where rows wait behind it; nil: none do.
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
	// Took is the time from being recorded to being settled, or the time that it waits already.
	Took time.Duration
	// Left and Width place that time between the oldest and the newest of the page, in percent.
	Left, Width string
}

// Waits tells whether it is not settled.
func (r StreamRow) Waits() bool { return r.Settled.Zero() }

// PlaceStream lays the rows' lives out between the first time of theirs and now, or the last of them where all are settled.
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
	const least = 0.7 // percent, so that it can be seen
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
