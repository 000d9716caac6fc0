package clustertest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/partition"
)

// The kinds of control messages.
const (
	kindBatch        = "batch"
	kindWatermark    = "watermark"
	kindFence        = "fence"
	kindAnnouncement = "announcement"
)

// record is a control message as it lies in the stream. It is read here anew, and not by the relay's own code, so that
// a mistake there shows.
type record struct {
	Kind  string    `json:"kind"`
	Epoch int64     `json:"epoch"`
	Owner uuid.UUID `json:"owner"`
	Batch uint64    `json:"batch"`
	Kept  uint64    `json:"kept"`
	Parts []struct {
		First     uint64  `json:"first"`
		Sequences []int64 `json:"sequences"`
	} `json:"parts"`
	Events int `json:"events"`

	subject   string
	partition partition.ID
	at        uint64 // where it lies
	expected  uint64 // the place that it expects of the one before
}

func (r record) String() string {
	text := fmt.Sprintf("%s at %d behind %d: epoch %d, owner %s, batch %d, kept %d", r.Kind, r.at, r.expected, r.Epoch, r.Owner, r.Batch, r.Kept)
	for _, p := range r.Parts {
		text += fmt.Sprintf(", sequences %v from %d", p.Sequences, p.First)
	}
	return text
}

func parseRecord(message jetstream.Msg, at uint64) (record, error) {
	subject := message.Subject()
	r := record{subject: subject, at: at}
	if err := json.Unmarshal(message.Data(), &r); err != nil {
		return r, fmt.Errorf("%w: %w", errRecord, err)
	}
	expected, err := strconv.ParseUint(message.Headers().Get(jetstream.ExpectedLastSubjSeqHeader), 10, 64)
	if err != nil {
		return r, fmt.Errorf("%w: what it expects: %w", errRecord, err)
	}
	r.expected = expected
	if !slices.Contains([]string{kindBatch, kindWatermark, kindFence, kindAnnouncement}, r.Kind) {
		return r, fmt.Errorf("%w: its kind is %q", errRecord, r.Kind)
	}
	id, err := strconv.ParseInt(subject[strings.LastIndexByte(subject, '.')+1:], 10, 16)
	if err != nil {
		return r, fmt.Errorf("%w: subject %s ends in no partition", errRecord, subject)
	}
	r.partition = partition.ID(id)
	total := 0
	for _, p := range r.Parts {
		total += len(p.Sequences)
	}
	if total != r.Events {
		return r, fmt.Errorf("%w: it counts %d events and lists %d", errRecord, r.Events, total)
	}
	return r, nil
}

// placed returns the sequences that a watermark lists, with their places.
func (r record) placed() map[uint64]int64 {
	places := map[uint64]int64{}
	for _, p := range r.Parts {
		sequence := int64(0)
		for i, step := range p.Sequences {
			sequence += step
			places[p.First+uint64(i)] = sequence
		}
	}
	return places
}

// listed returns the sequences of a batch that lies directly behind its record.
func (r record) listed() (sequences []int64) {
	for _, p := range r.Parts {
		at := int64(0)
		for _, step := range p.Sequences {
			at += step
			sequences = append(sequences, at)
		}
	}
	return sequences
}
