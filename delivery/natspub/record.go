package natspub

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/partition"
)

// The kinds of records on a partition's control subject.
const (
	kindBatch        = "batch"        // begins an atomic batch: its messages lie directly behind it
	kindWatermark    = "watermark"    // closes messages that were stored one by one
	kindFence        = "fence"        // written by a new owner before its first batch
	kindAnnouncement = "announcement" // comes before messages that are stored one by one
)

// recordVersion is raised when a record cannot be read by older releases. In version 1 a watermark closed a batch; 2 added announcements, 3 batches.
const recordVersion = 3

// record is the body of a control message. A partition's last one names its owner and the messages of its last batch.
type record struct {
	Version int       `json:"v"`
	Kind    string    `json:"kind"`
	Epoch   int64     `json:"epoch"`
	Owner   uuid.UUID `json:"owner"`
	// Batch counts the owner's batches under this epoch; a fence carries over the number of the record that it replaces.
	Batch uint64 `json:"batch"`
	// Attempt is unique for each message that was sent.
	Attempt string `json:"attempt"`
	// Kept, in a fence, is the position of the last watermark. A fence on a fence carries it over: until the owner has published,
	// messages it found may be unsettled.
	Kept   uint64 `json:"kept,omitempty"`
	Events int    `json:"events"`
	Parts  []part `json:"parts,omitempty"`
	// Lives are the last mostLives of the partition's records; each record hands them on.
	Lives []delivery.Life `json:"lives,omitempty"`
}

// mostLives are handed on. The oldest one takes the lowest Kept, up to which the stream held acknowledged messages.
const mostLives = 4

// reborn adds a life after the last one and after the known one: the stream holds the partition up to kept.
func reborn(lives []delivery.Life, known string, kept uint64) []delivery.Life {
	if n := len(lives); n > 0 && delivery.LifeNumber(lives[n-1].ID) > delivery.LifeNumber(known) {
		known = lives[n-1].ID
	}
	lives = append(slices.Clone(lives), delivery.NextLife(known, kept))
	if len(lives) > mostLives {
		lives[1].Kept = min(lives[0].Kept, lives[1].Kept)
		lives = lives[1:]
	}
	return lives
}

// part is a run of messages that lie one behind the other in the stream.
type part struct {
	// First is the position of the first message; 0: the kind of the record that names the run implies it.
	First uint64 `json:"first,omitempty"`
	// Batch, in a copy: an atomic batch. A server that came to a limit may have stored its first messages alone.
	Batch bool `json:"batch,omitempty"`
	// After, in a copy, is the announcement's position: each of the messages may lie behind it.
	After uint64 `json:"after,omitempty"`
	// Sequences are the first global sequence and the differences between neighbours.
	Sequences []int64 `json:"sequences"`
	// Generations is nil when all are 0.
	Generations []int `json:"generations,omitempty"`
	// Era is the outbox's generation, which was added to each.
	Era int `json:"era,omitempty"`
	// Identities are 8 bytes for each event; see delivery.IdentityOf.
	Identities []byte `json:"identities"`
}

// partOf describes the messages of those indices, which are neighbours in the stream, or will be.
func partOf(messages []delivery.Message, indices []int) part {
	p := part{Sequences: make([]int64, len(indices)), Identities: make([]byte, 0, 8*len(indices))}
	before := int64(0)
	for i, index := range indices {
		m := &messages[index]
		p.Sequences[i], before, p.Era = m.Sequence-before, m.Sequence, max(p.Era, m.Era)
		p.Identities = binary.BigEndian.AppendUint64(p.Identities, delivery.IdentityOf(m.Event.ID))
		if m.Generation > 0 && p.Generations == nil {
			p.Generations = make([]int, len(indices))
		}
		if p.Generations != nil {
			p.Generations[i] = m.Generation
		}
	}
	return p
}

// delivered lists the messages of the record, which itself lies at that position.
func (r record) delivered(at uint64) []delivery.Delivered {
	return delivered(r.located(at))
}

// delivered lists the messages of parts with known positions.
func delivered(parts []part) (list []delivery.Delivered) {
	for _, p := range parts {
		list = append(list, p.messages()...)
	}
	return list
}

// messages lists a part's messages.
func (p part) messages() []delivery.Delivered {
	list := make([]delivery.Delivered, len(p.Sequences))
	sequence := int64(0)
	for i, step := range p.Sequences {
		sequence += step
		list[i] = delivery.Delivered{
			Sequence: sequence, Identity: binary.BigEndian.Uint64(p.Identities[8*i:]), StreamSequence: p.First + uint64(i), Era: p.Era,
		}
		if p.Generations != nil {
			list[i].Generation = p.Generations[i]
		}
	}
	return list
}

// upTo returns the part's first messages alone.
func (p part) upTo(n uint64) part {
	p.Sequences, p.Identities = p.Sequences[:n], p.Identities[:8*n]
	if p.Generations != nil {
		p.Generations = p.Generations[:n]
	}
	return p
}

// located returns the parts with their positions, as a copy of the record at another place needs them.
func (r record) located(at uint64) []part {
	parts := make([]part, len(r.Parts))
	for i, p := range r.Parts {
		switch {
		case r.Kind == kindAnnouncement:
			p.After = at
		case r.Kind == kindBatch:
			p.First, p.Batch = at+1, true
		case p.First == 0 && p.After == 0:
			p.First = at - uint64(len(p.Sequences))
		}
		parts[i] = p
	}
	return parts
}

// end returns the position of the record's last message, or else its own.
func (r record) end(at uint64) uint64 {
	if r.Kind == kindBatch {
		for _, p := range r.Parts {
			at += uint64(len(p.Sequences))
		}
	}
	return at
}

// errRecord is returned for a control message that this program did not write.
var errRecord = errors.New("unreadable control record")

// recordOf reads a control message.
func recordOf(m wire.RawMessage, subject string) (record, error) {
	r, err := parseRecord(m.Body)
	if err != nil {
		return r, fmt.Errorf("%w: message %d on %s: %w", delivery.ErrConfiguration, m.Sequence, subject, err)
	}
	return r, nil
}

func parseRecord(body []byte) (record, error) {
	var r record
	if err := json.Unmarshal(body, &r); err != nil {
		return record{}, fmt.Errorf("%w: %w", errRecord, err)
	}
	if r.Version < 1 || r.Version > recordVersion {
		return record{}, fmt.Errorf("%w: version %d, this release reads %d", errRecord, r.Version, recordVersion)
	}
	if r.Kind == kindBatch && (len(r.Parts) != 1 || len(r.Parts[0].Sequences) == 0) {
		return record{}, fmt.Errorf("%w: a batch of nothing", errRecord)
	}
	for _, p := range r.Parts {
		if len(p.Identities) != 8*len(p.Sequences) || p.Generations != nil && len(p.Generations) != len(p.Sequences) {
			return record{}, fmt.Errorf("%w: its lists differ in length", errRecord)
		}
	}
	return r, nil
}

func (r record) encode() []byte {
	r.Version, r.Events = recordVersion, 0
	for _, p := range r.Parts {
		r.Events += len(p.Sequences)
	}
	body, err := json.Marshal(r)
	if err != nil {
		panic("control record: " + err.Error()) // of plain numbers and text
	}
	return body
}

// Kept implements delivery.Publisher.
func (f *Fenced) Kept(ctx context.Context, id partition.ID) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.AckTimeout)
	defer cancel()
	found, at, kept, err := f.lastRecord(ctx, f.cfg.Control.Subject(id))
	for _, p := range found.located(at) {
		if err == nil && p.Batch {
			_, kept, err = f.stored(ctx, p)
		}
	}
	return kept, err
}

// lastRecord reads a control subject's last record: its position, and that of the last watermark or the last batch's end.
func (f *Fenced) lastRecord(ctx context.Context, subject string) (found record, at, kept uint64, err error) {
	m, err := f.api.Last(ctx, subject)
	at = m.Sequence
	if err != nil || at == 0 {
		return found, at, at, err
	}
	if found, err = recordOf(m, subject); err != nil {
		return found, at, at, err
	}
	if found.Kind == kindFence {
		return found, at, found.Kept, nil
	}
	return found, at, found.end(at), nil
}

// recordsAtOnce records are read before their messages are returned.
const recordsAtOnce = 50

// Between implements delivery.Publisher. Fences name no messages of their own, and a later record closes each announcement. The caller's
// own record follows the others; a server that does not know it is an old leader.
func (f *Fenced) Between(ctx context.Context, id partition.ID, after, before uint64) (last uint64, named []delivery.Delivered, err error) {
	subject := f.cfg.Control.Subject(id)
	last = after
	for range recordsAtOnce {
		if last+1 >= before {
			break
		}
		ask, cancel := context.WithTimeout(ctx, f.cfg.AckTimeout)
		m, err := f.api.Next(ask, subject, last+1)
		cancel()
		if err != nil {
			return after, nil, err
		}
		if m.Sequence == 0 {
			return after, nil, fmt.Errorf("%w: stream %s gives no record of partition %d behind %d, and must have one", delivery.ErrOutage, f.cfg.Stream, id, last)
		}
		if m.Sequence >= before {
			break
		}
		found, err := recordOf(m, subject)
		if err != nil {
			return after, nil, err
		}
		if found.end(m.Sequence) >= before {
			break
		}
		last = m.Sequence
		switch found.Kind {
		case kindBatch:
			var held part
			if held, last, err = f.stored(ctx, found.located(last)[0]); err != nil {
				return after, nil, err
			}
			named = append(named, held.messages()...)
		case kindWatermark:
			named = append(named, found.delivered(last)...)
		}
	}
	return last, named, nil
}
