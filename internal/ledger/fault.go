package ledger

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/postrider/postrider/partition"
)

// FaultKind names the broken promise.
type FaultKind string

// The kinds of faults.
const (
	KindLost               FaultKind = "lost"
	KindPhantom            FaultKind = "phantom"
	KindDuplicate          FaultKind = "duplicate"
	KindReorderedStream    FaultKind = "reordered_stream"
	KindReorderedPartition FaultKind = "reordered_partition"
	KindVersionGap         FaultKind = "version_gap"
	KindAltered            FaultKind = "altered"
	KindEpoch              FaultKind = "epoch"
	KindLedger             FaultKind = "ledger"
)

// Fault is one broken promise, with the message that broke it.
type Fault struct {
	Kind           FaultKind    `json:"kind"`
	Text           string       `json:"text"`
	EventID        uuid.UUID    `json:"event_id"`
	Stream         string       `json:"stream_id"`
	Version        int64        `json:"stream_version"`
	Sequence       int64        `json:"global_sequence"`
	Partition      partition.ID `json:"partition_key"`
	Generation     int32        `json:"generation,omitempty"`
	StreamSequence uint64       `json:"stream_sequence,omitempty"`
}

// String returns the fault in one line.
func (f Fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: event %s (stream %s version %d, sequence %d, partition %d",
		f.Kind, f.EventID, quoted(f.Stream), f.Version, f.Sequence, f.Partition)
	if f.Generation != 0 {
		fmt.Fprintf(&b, ", generation %d", f.Generation)
	}
	if f.StreamSequence != 0 {
		fmt.Fprintf(&b, ", stored at %d", f.StreamSequence)
	}
	b.WriteString("): ")
	b.WriteString(f.Text)
	return b.String()
}

// faultList counts faults and keeps the first few of every kind.
type faultList struct {
	keep   int
	counts map[FaultKind]int
	first  []Fault
}

const defaultFaultsKept = 10

func newFaultList(keep int) faultList {
	return faultList{keep: keep, counts: make(map[FaultKind]int)}
}

func (l *faultList) add(f Fault) {
	l.counts[f.Kind]++
	if l.counts[f.Kind] <= l.keep {
		f.Stream = strings.Clone(f.Stream)
		l.first = append(l.first, f)
	}
}
