package inbox

import (
	"strings"
	"time"
)

// Status says what became of a message. Each of them is durable: the message may be acknowledged.
type Status int

// What can become of a message.
const (
	// Applied: the handler ran and its effect is committed.
	Applied Status = iota + 1
	// Repeat: it was dealt with before; the handler did not run, Result is what it returned then.
	Repeat
	// Outdated: it is older than what was applied and was never seen. Refused: the handler did not run.
	Outdated
	// Waiting: an earlier message of its stream failed. It is parked with its payload and goes after that one.
	Waiting
	// Failed: the handler failed and is tried again later. The message is parked with its payload.
	Failed
	// Dead: the handler failed for good, or another event has the same stream and version. Parked until a person decides; its stream waits.
	Dead
)

var statusNames = map[Status]string{
	Applied: "applied", Repeat: "repeat", Outdated: "outdated", Waiting: "waiting", Failed: "failed", Dead: "dead",
}

// String gives the name that metrics and logs use.
func (s Status) String() string {
	if name, ok := statusNames[s]; ok {
		return name
	}
	return "unknown"
}

// Finding is a set of things that are odd about a message, beside what became of it.
type Finding uint8

// What can be odd.
const (
	// Gap: versions before this one were not seen: audit-only events, events that an operator skipped or discarded, or
	// a consumer that began later than the stream. Outcome.Missing says how many.
	Gap Finding = 1 << iota
	// Reversal: the message comes after a later one of its stream.
	Reversal
	// LowerGeneration: an earlier message of the stream had a higher generation. Normal behind a requeued message.
	LowerGeneration
	// LowerEpoch: an earlier message of the stream, in the same partition and generation, was published under a higher
	// epoch: a copy of a former owner came late.
	LowerEpoch
	// Conflict: another event had this stream and version. The producer's database forgot published events.
	Conflict
)

var findingNames = []struct {
	finding Finding
	name    string
}{
	{Gap, "gap"}, {Reversal, "reversal"}, {LowerGeneration, "lower_generation"}, {LowerEpoch, "lower_epoch"}, {Conflict, "conflict"},
}

// Has tells whether all of these are in the set.
func (f Finding) Has(other Finding) bool { return f&other == other }

// String names what is in the set, separated by commas; "" when nothing is.
func (f Finding) String() string {
	var names []string
	for _, n := range findingNames {
		if f.Has(n.finding) {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, ",")
}

// Outcome says what became of one message or call.
type Outcome struct {
	Status Status
	// Result is what the handler returned, now or the first time. Nil for what did not run, and for a repeat whose record
	// is past the retention.
	Result []byte
	// Findings names what is odd; Missing is the number of versions (of ids, for a call) left out before this one.
	Findings Finding
	Missing  int64
	// Last is the version (the id, for a call) that the key had before.
	Last int64
	// Err is why the handler failed, for Failed and Dead; the stored reason for the repeat of a call that failed for good.
	Err error
	// Attempts and RetryAt tell how often the handler failed and when it is tried again; for Failed and Dead.
	Attempts int
	RetryAt  time.Time
}
