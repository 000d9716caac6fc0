package pairs_test

import (
	"fmt"
	"testing"
)

// permits is what an operation takes back of the promises, by its nature. Everything else holds in every pair.
type permits uint

const (
	// moves: a partition is another one afterwards, so its order is not promised across; that of streams is.
	moves permits = 1 << iota
	// repeats: what the stream lost is published again, under the same event ids and generations.
	repeats
	// forgets: the database knows nothing of some events that are in the stream. It raises an alarm.
	forgets
	// again: some events are published again under a higher generation.
	again
	// parks: some events wait by themselves and come later than their partition's, in the order of their stream.
	parks
	// sweeps: the history of some events is gone; what it does not know it cannot heal.
	sweeps
	// holds: events wait until it ends.
	holds
	// reports: workers are told to report what the stream lost, and not to publish it again.
	reports
)

// act is one operation under way. Each step may be nil.
type act struct {
	begin func(t *testing.T)
	// end comes while the other operation lasts, if that began first.
	end func(t *testing.T)
	// finish comes when both have ended, and may wait for what either held back.
	finish func(t *testing.T)
	// check comes when everything is delivered.
	check func(t *testing.T)
}

// operation is a row and a column of the table.
type operation struct {
	name    string
	permits permits
	// act makes it; n is 1 for the first of a pair and 2 for the second.
	act func(s *stage, n int) act
}

// operations are those that are tried against each other.
func operations() []operation {
	list := []operation{
		{"resize up", moves, resize(+5)},
		{"resize down", moves, resize(-3)},
		{"sync --prune", 0, prune},
		{pausing, holds, pause},
		{"drain", 0, drain},
		{"requeue", parks, requeue},
		{"replay", again, replayed},
		{"stream lost", repeats, lost},
		{"stream emptied", repeats, emptied},
		{"stream lost, reported", reports, reported},
	}
	for _, n := range []int{1, 8, 40, 400} {
		list = append(list, operation{fmt.Sprintf("failover forgets %d", n), forgets, failover(n)})
	}
	return append(list,
		operation{"prepared open", holds, preparedOpen},
		operation{"prepared overlapping", 0, preparedOverlapping},
		operation{"scheduled", parks, scheduled},
		operation{"retention", sweeps, retention},
		operation{"capture", 0, captures},
		operation{"backfill", 0, backfills},
		operation{"adopt", 0, adopts},
		operation{"functions refused", 0, refused},
		operation{"events in parts", 0, inParts},
		operation{"replay, served", again, served},
		operation{"isolated producers", 0, isolated},
		operation{"canaries", 0, canaries},
		operation{"consumer away", 0, away},
		operation{"consumer forgets", 0, consumerForgets},
		operation{"stream restored", repeats, restored},
		operation{steps, 0, stepsBack},
		operation{"stream unfit", 0, settings},
		operation{"batches turned off", 0, batchesOff},
	)
}

// met is what holds where two operations meet, beyond what each permits by itself.
func met(first, second operation) string {
	a, b := first.permits, second.permits
	resizes := a&moves != 0 || b&moves != 0
	switch {
	case first.name == pausing && b&moves != 0:
		return isRefused
	case a&holds != 0 && b&moves != 0:
		return "y"
	case resizes:
		return ""
	case (a|b)&sweeps != 0 && (a|b)&repeats != 0 && (a|b)&reports == 0:
		return "h"
	case a&forgets != 0 && b&(repeats|reports) != 0:
		return "n"
	default:
		return ""
	}
}

const (
	// pausing is the operation beside which others are refused, and isRefused their mark in the table.
	pausing   = "pause"
	isRefused = "x"
	// steps is the operation that needs a server whose clock can be moved.
	steps = "clock steps back"
)

// step runs one that there is.
func step(t *testing.T, do func(*testing.T)) {
	t.Helper()
	if do != nil {
		do(t)
	}
}
