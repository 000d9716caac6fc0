package admin

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// MessageBody is the JSON form of a message in a list, the same in the commands
// and in the monitor's API. What a message has not is null.
type MessageBody struct {
	Sequence       int64      `json:"global_sequence"`
	Partition      int        `json:"partition_key"`
	Stream         string     `json:"stream_id"`
	Topic          string     `json:"topic"`
	State          State      `json:"state"`
	Attempts       int        `json:"attempts"`
	Generation     int        `json:"generation"`
	AvailableAt    *time.Time `json:"available_at"`
	DeadAt         *time.Time `json:"dead_at"`
	PublishedAt    *time.Time `json:"published_at"`
	StreamSequence *int64     `json:"stream_sequence"`
	LastError      *string    `json:"last_error"`
	EventID        *uuid.UUID `json:"event_id"`
	Type           *string    `json:"event_type"`
	StreamVersion  *int64     `json:"stream_version"`
	RecordedAt     *time.Time `json:"recorded_at"`
}

// DetailBody is the JSON form of a message with its history and what waits behind
// it.
type DetailBody struct {
	MessageBody

	TenantID   *string         `json:"tenant_id"`
	OccurredAt *time.Time      `json:"occurred_at"`
	AuditOnly  bool            `json:"audit_only"`
	Metadata   json.RawMessage `json:"metadata"`
	Deliveries []DeliveryBody  `json:"deliveries"`
	BlockedBy  *NeighbourBody  `json:"blocked_by"`
	Behind     int64           `json:"behind"`
	BehindMore bool            `json:"behind_more"` // there are more, that were not counted
	Next       []NeighbourBody `json:"next_behind"`
}

// DeliveryBody is the JSON form of a Delivery.
type DeliveryBody struct {
	State          State     `json:"state"`
	PublishedAt    time.Time `json:"published_at"`
	StreamSequence *int64    `json:"stream_sequence"`
	Partition      int       `json:"partition_key"`
	Epoch          int64     `json:"lease_epoch"`
	Attempts       int       `json:"attempts"`
	Generation     int       `json:"generation"`
	Lost           bool      `json:"lost"`
}

// NeighbourBody is the JSON form of a Neighbour.
type NeighbourBody struct {
	Sequence int64 `json:"global_sequence"`
	State    State `json:"state"`
}

// Body returns the message's JSON form, with times in that zone.
func (m Message) Body(zone *time.Location) MessageBody {
	return MessageBody{
		Sequence: m.Sequence, Partition: int(m.Partition), Stream: m.Stream, Topic: m.Topic, State: m.State,
		Attempts: m.Attempts, Generation: m.Generation,
		AvailableAt: in(zone, m.AvailableAt), DeadAt: in(zone, m.DeadAt), PublishedAt: in(zone, m.PublishedAt),
		StreamSequence: m.StreamSequence, LastError: orNull(m.LastError), EventID: orNull(m.EventID), Type: orNull(m.Type),
		StreamVersion: orNull(m.StreamVersion), RecordedAt: in(zone, orNull(m.RecordedAt)),
	}
}

// Body returns the detail's JSON form, with times in that zone.
func (d Detail) Body(zone *time.Location) DetailBody {
	b := DetailBody{MessageBody: d.Message.Body(zone), Behind: d.Behind, BehindMore: d.BehindMore, Deliveries: []DeliveryBody{}, Next: []NeighbourBody{}}
	if d.Event != nil {
		b.TenantID, b.OccurredAt, b.AuditOnly = orNull(d.Event.TenantID), in(zone, d.Event.OccurredAt), d.Event.AuditOnly
		b.Metadata = d.Event.Metadata
	}
	for _, one := range d.Deliveries {
		b.Deliveries = append(b.Deliveries, DeliveryBody{
			State: one.State, PublishedAt: one.PublishedAt.In(zone), StreamSequence: one.StreamSequence, Partition: int(one.Partition),
			Epoch: one.Epoch, Attempts: one.Attempts, Generation: one.Generation, Lost: one.Lost,
		})
	}
	for _, n := range d.Next {
		b.Next = append(b.Next, NeighbourBody(n))
	}
	if d.BlockedBy != nil {
		by := NeighbourBody(*d.BlockedBy)
		b.BlockedBy = &by
	}
	return b
}

func in(zone *time.Location, t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	there := t.In(zone)
	return &there
}
