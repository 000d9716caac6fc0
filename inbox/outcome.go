package inbox

import (
	"strings"
	"time"
)

// Status is the fate of a message. Each of them is durable: the message may be acknowledged.
type Status int

// The statuses of a message.
const (
	// Applied: the handler ran and its effect is committed.
	Applied Status = iota + 1
	// Repeat: it was settled before; the handler did not run, Result is its first result.
	Repeat
	// Outdated: it is older than an applied message and was never seen. Refused: the handler did not run.
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

// String returns the name in metrics and logs.
func (s Status) String() string {
	if name, ok := statusNames[s]; ok {
		return name
	}
	return "unknown"
}

// Finding is a set of oddities of a message, beside its status.
type Finding uint8

// The findings.
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

// Has reports whether all of these are in the set.
func (f Finding) Has(other Finding) bool { return f&other == other }

// String names the findings of the set, separated by commas; "" without any.
func (f Finding) String() string {
	var names []string
	for _, n := range findingNames {
		if f.Has(n.finding) {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, ",")
}

// Outcome is the result of one message or call.
type Outcome struct {
	Status Status
	// Result is the handler's, now or the first time. Nil where none ran, and for a repeat whose record is past the retention.
	Result []byte
	// Findings names the oddities; Missing is the number of versions (of ids, for a call) left out before this one.
	Findings Finding
	Missing  int64
	// Last is the version (the id, for a call) that the key had before.
	Last int64
	// Err is the handler's error, for Failed and Dead; the stored reason for the repeat of a call that failed for good.
	Err error
	// Attempts counts the handler's failures, RetryAt is the time of the next try; for Failed and Dead.
	Attempts int
	RetryAt  time.Time
}
