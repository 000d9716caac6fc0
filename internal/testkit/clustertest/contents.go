package clustertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/partition"
)

const fenceSubjects = "outbox.fence."

// faultsKept faults of a stream are kept with their text.
const faultsKept = 20

// Contents counts a stream's messages.
type Contents struct {
	// Copies counts the messages of each event.
	Copies map[uuid.UUID]int
	// Messages counts those of events, Watermarks and Fences the control messages.
	Messages, Watermarks, Fences, Announcements int
	// Owners counts the different owners and epochs that the control messages name.
	Owners int
	// Faults are contradictions to the fence, the first ones with their text.
	Faults []string
	faults int
}

// Duplicates returns the number of messages beyond the first of each event.
func (s *Contents) Duplicates() int { return s.Messages - len(s.Copies) }

// String returns one line.
func (s *Contents) String() string {
	return fmt.Sprintf("stream: %d messages of %d events, %d watermarks, %d announcements, %d fences, %d tenures, %d faults",
		s.Messages, len(s.Copies), s.Watermarks, s.Announcements, s.Fences, s.Owners, s.faults)
}

func (s *Contents) fault(format string, args ...any) {
	if s.faults++; s.faults <= faultsKept {
		s.Faults = append(s.Faults, fmt.Sprintf(format, args...))
	}
}

// Contents reads the stream from its beginning to its present end, in stored order. A batch lies there whole: a control message, directly
// followed by the messages of one partition that it names; or it is torn, and the partition is taken next. Messages stored one by one lie
// between their announcement and the watermark that names their places. A partition's epochs must never descend.
func (c *Cluster) Contents(t testing.TB) *Contents {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), contentsPatience)
	defer cancel()
	r := reader{
		contents: &Contents{Copies: map[uuid.UUID]int{}}, tenures: map[string]record{}, kept: map[string]uint64{}, recent: map[partition.ID][]record{},
		singles: map[partition.ID]map[uint64]int64{}, torn: map[string]record{},
		trimmed: c.setting("--keep-records") != "",
	}
	if err := r.read(ctx, c.NATS.JetStream(t)); err != nil {
		t.Fatalf("read the stream: %v", err)
	}
	return r.contents
}

// contentsPatience bounds the reading of a whole stream.
const contentsPatience = 5 * Patience

// reader goes through a stream.
type reader struct {
	contents *Contents
	batch    record                            // the last one that begins a batch
	pending  []int64                           // those that it names and that have not come yet
	torn     map[string]record                 // batches that are not whole, by their subject, until the partition is taken
	singles  map[partition.ID]map[uint64]int64 // not yet closed of those that were stored one by one: their sequences by position
	tenures  map[string]record                 // the last control message by its subject
	kept     map[string]uint64                 // where the last watermark lies or the last batch ends, by its subject

	trimmed bool   // records may be missing: the scenario is about that
	unnamed bool   // so is the one that names the next messages
	last    uint64 // position

	recent map[partition.ID][]record // the last control messages of each partition, for explanations
}

// recordsTold control messages of a partition are shown with a copy.
const recordsTold = 40

func (r *reader) read(ctx context.Context, js jetstream.JetStream) error {
	stream, err := js.Stream(ctx, natstest.StreamName)
	if err != nil {
		return err
	}
	end := stream.CachedInfo().State.LastSeq
	if stream.CachedInfo().State.Msgs == 0 {
		return nil
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(1000), jetstream.PullHeartbeat(readHeartbeat))
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		message, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		meta, err := message.Metadata()
		if err != nil {
			return err
		}
		if err := r.receive(message, meta.Sequence.Stream); err != nil {
			return fmt.Errorf("stream sequence %d: %w", meta.Sequence.Stream, err)
		}
		if meta.Sequence.Stream >= end {
			break
		}
	}
	r.cut()
	for _, torn := range r.torn {
		r.contents.fault("nobody has taken the partition of a torn batch: %s", torn)
	}
	return nil
}

func (r *reader) receive(message jetstream.Msg, at uint64) error {
	if r.trimmed && at > r.last+1 {
		r.unnamed = true
	}
	r.last = at
	if subject := message.Subject(); strings.HasPrefix(subject, fenceSubjects) {
		found, err := parseRecord(message, at)
		if err != nil {
			return err
		}
		r.cut()
		r.unnamed = false
		list := append(r.recent[found.partition], found)
		r.recent[found.partition] = list[max(0, len(list)-recordsTold):]
		r.control(found, at)
		return nil
	}
	m, err := ledger.ParseMessage(message.Subject(), message.Headers(), message.Data(), at)
	if err != nil {
		return err
	}
	r.contents.Messages++
	r.contents.Copies[m.EventID]++
	if n := r.contents.Copies[m.EventID]; n > 1 && m.Generation == 0 {
		r.contents.fault("event %s (sequence %d, partition %d) lies at %d as copy %d; the control messages before it:\n%s",
			m.EventID, m.Sequence, m.Partition, at, n, lines(r.recent[m.Partition]))
	}
	if expected := message.Headers().Get(jetstream.ExpectedLastSubjSeqHeader); expected != "" {
		r.cut()
		r.single(m, message.Headers().Get(jetstream.ExpectedLastSubjSeqSubjHeader), expected, at)
	} else {
		r.inBatch(m, at)
	}
	return nil
}

// single judges a message that was stored by itself: it lies behind the record that it expects, its partition's last one.
func (r *reader) single(m ledger.Message, subject, expected string, at uint64) {
	last := r.tenures[subject]
	k, err := strconv.ParseUint(expected, 10, 64)
	removed := r.trimmed && k > last.at // the record that it expects
	if err != nil || !removed && (k != last.at || last.Kind != kindAnnouncement || last.partition != m.Partition) {
		r.contents.fault("sequence %d of partition %d lies at %d and expects the record at %s of %s, and the last one is: %s",
			m.Sequence, m.Partition, at, expected, subject, last)
	}
	if r.singles[m.Partition] == nil {
		r.singles[m.Partition] = map[uint64]int64{}
	}
	r.singles[m.Partition][at] = m.Sequence
}

// control judges a control message: its tenure against the one before, its list against the messages before it.
func (r *reader) control(found record, at uint64) {
	before, known := r.tenures[found.subject]
	r.tenures[found.subject] = found
	if found.expected != before.at && (!r.trimmed || found.expected < before.at) {
		r.contents.fault("%s: the control message at %d expects %d before it, and %d is", found.subject, at, found.expected, before.at)
	}
	kept := r.kept[found.subject]
	if found.Kind != kindFence {
		r.kept[found.subject] = at
		if found.Kind == kindBatch {
			r.kept[found.subject] += uint64(len(found.listed()))
		}
	} else if found.Kept != kept && (!r.trimmed || found.Kept < kept) {
		r.contents.fault("%s: the fence at %d takes %d for the last watermark, and that is %d", found.subject, at, found.Kept, kept)
	}
	switch {
	case known && found.Epoch < before.Epoch:
		r.contents.fault("%s: epoch %d at %d comes after epoch %d", found.subject, found.Epoch, at, before.Epoch)
	case known && found.Epoch == before.Epoch && found.Owner != before.Owner:
		r.contents.fault("%s: epoch %d at %d is of %s, and of %s before", found.subject, found.Epoch, at, found.Owner, before.Owner)
	case !known || found.Epoch > before.Epoch:
		r.contents.Owners++
		if found.Kind != kindFence && !r.trimmed {
			r.contents.fault("%s: epoch %d begins at %d without a fence", found.subject, found.Epoch, at)
		}
	}
	if torn, is := r.torn[found.subject]; is && found.Kind != kindFence {
		r.contents.fault("%s: the %s at %d follows a torn batch, and nobody has taken the partition: %s", found.subject, found.Kind, at, torn)
	}
	delete(r.torn, found.subject)
	open := r.singles[found.partition]
	switch found.Kind {
	case kindFence:
		r.contents.Fences++
	case kindBatch:
		r.contents.Watermarks++
		r.batch, r.pending = found, found.listed()
	case kindAnnouncement:
		if r.contents.Announcements++; len(open) > 0 && !r.trimmed {
			r.contents.fault("%s: the announcement at %d follows %d messages that nothing closes", found.subject, at, len(open))
		}
	case kindWatermark:
		r.contents.Watermarks++
		places := found.placed()
		if r.trimmed { // records that closed others may be gone
			maps.DeleteFunc(open, func(at uint64, _ int64) bool { return places[at] == 0 })
		}
		if !maps.Equal(places, open) {
			r.contents.fault("%s: the watermark at %d lists %v, and %v lies there", found.subject, at, places, open)
		}
		delete(r.singles, found.partition)
	}
}

// inBatch judges a message that was stored with others: it is the next one that the batch's record names.
func (r *reader) inBatch(m ledger.Message, at uint64) {
	switch {
	case len(r.pending) > 0 && r.pending[0] == m.Sequence && r.batch.partition == m.Partition:
		r.pending = r.pending[1:]
	case !r.unnamed:
		r.contents.fault("sequence %d of partition %d lies at %d, and the batch before it does not name it there: %s", m.Sequence, m.Partition, at, r.batch)
	}
}

// cut ends a batch of which the server stored the first messages alone: the next publisher has to take the partition before.
func (r *reader) cut() {
	if len(r.pending) > 0 {
		r.torn[r.batch.subject], r.pending = r.batch, nil
	}
}

// lines returns the items of the list, one a line.
func lines(list []record) string {
	var text strings.Builder
	for _, r := range list {
		fmt.Fprintln(&text, r)
	}
	return text.String()
}

var errRecord = errors.New("control message cannot be read")
