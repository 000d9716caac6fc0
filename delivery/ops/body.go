package ops

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// MessageBody is the JSON form of a message in a list, the same in the commands and in the monitor's API. Absent values are null.
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

// DetailBody is the JSON form of a message with its history and its successors.
type DetailBody struct {
	MessageBody

	TenantID   *string         `json:"tenant_id"`
	OccurredAt *time.Time      `json:"occurred_at"`
	AuditOnly  bool            `json:"audit_only"`
	Metadata   json.RawMessage `json:"metadata"`
	Failures   []FailedAttempt `json:"failures"`
	Deliveries []DeliveryBody  `json:"deliveries"`
	BlockedBy  *NeighbourBody  `json:"blocked_by"`
	Behind     int64           `json:"behind"`
	BehindMore bool            `json:"behind_more"` // there are more, that were not counted
	Next       []NeighbourBody `json:"next_behind"`
	Actions    []ActionBody    `json:"actions"`
}

// ActionBody is the JSON form of an operator's action, and of the message's state before.
type ActionBody struct {
	ID         int64     `json:"id"`
	At         time.Time `json:"at"`
	Actor      string    `json:"actor"`
	Action     string    `json:"action"`
	Reason     *string   `json:"reason"`
	Attempts   int       `json:"attempts"`
	Generation int       `json:"generation"`
	LastError  *string   `json:"last_error"`
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

// Body returns the message's JSON form; its times are UTC.
func (m Message) Body() MessageBody {
	return MessageBody{
		Sequence: m.Sequence, Partition: int(m.Partition), Stream: m.Stream, Topic: m.Topic, State: m.State,
		Attempts: m.Attempts, Generation: m.Generation,
		AvailableAt: pg.UTC(m.AvailableAt), DeadAt: pg.UTC(m.DeadAt), PublishedAt: pg.UTC(m.PublishedAt),
		StreamSequence: m.StreamSequence, LastError: pg.OrNull(m.LastError), EventID: pg.OrNull(m.EventID), Type: pg.OrNull(m.Type),
		StreamVersion: pg.OrNull(m.StreamVersion), RecordedAt: pg.UTC(pg.OrNull(m.RecordedAt)),
	}
}

// Body returns the detail's JSON form; its times are UTC.
func (d Detail) Body() DetailBody {
	b := DetailBody{
		MessageBody: d.Message.Body(), Behind: d.Behind, BehindMore: d.BehindMore,
		Failures: []FailedAttempt{}, Deliveries: []DeliveryBody{}, Next: []NeighbourBody{}, Actions: []ActionBody{},
	}
	if d.Event != nil {
		b.TenantID, b.OccurredAt, b.AuditOnly = pg.OrNull(d.Event.TenantID), pg.UTC(d.Event.OccurredAt), d.Event.AuditOnly
		b.Metadata = d.Event.Metadata
	}
	for _, one := range d.Failures {
		one.At = one.At.UTC()
		b.Failures = append(b.Failures, one)
	}
	for _, one := range d.Deliveries {
		b.Deliveries = append(b.Deliveries, DeliveryBody{
			State: one.State, PublishedAt: one.PublishedAt.UTC(), StreamSequence: one.StreamSequence, Partition: int(one.Partition),
			Epoch: one.Epoch, Attempts: one.Attempts, Generation: one.Generation, Lost: one.Lost,
		})
	}
	for _, n := range d.Next {
		b.Next = append(b.Next, NeighbourBody(n))
	}
	for _, a := range d.Actions {
		b.Actions = append(b.Actions, ActionBody{
			ID: a.ID, At: a.At.UTC(), Actor: a.Actor, Action: a.Action, Reason: pg.OrNull(a.Reason),
			Attempts: a.Attempts, Generation: a.Generation, LastError: pg.OrNull(a.LastError),
		})
	}
	if d.BlockedBy != nil {
		by := NeighbourBody(*d.BlockedBy)
		b.BlockedBy = &by
	}
	return b
}

// CausesBody is the JSON form of Causes; Complete is false where not all was looked at.
type CausesBody struct {
	Causes   []CauseBody `json:"causes"`
	Others   int64       `json:"others"`
	Complete bool        `json:"complete"`
}

// CauseBody is the JSON form of a Cause. Unknown values are null.
type CauseBody struct {
	Count   int64     `json:"count"`
	Topic   *string   `json:"topic"`
	Type    *string   `json:"event_type"`
	Family  *string   `json:"error_family"`
	Class   *string   `json:"error_class"`
	First   time.Time `json:"first_dead_at"`
	Last    time.Time `json:"last_dead_at"`
	Example int64     `json:"example_sequence"`
	Error   *string   `json:"example_error"`
}

// Body returns the causes' JSON form; its times are UTC.
func (c Causes) Body() CausesBody {
	b := CausesBody{Causes: []CauseBody{}, Others: c.Others, Complete: !c.More}
	for _, one := range c.List {
		b.Causes = append(b.Causes, CauseBody{
			Count: one.Count, Topic: pg.OrNull(one.Topic), Type: pg.OrNull(one.Type), Family: pg.OrNull(one.Family), Class: pg.OrNull(one.Class),
			First: one.First.UTC(), Last: one.Last.UTC(), Example: one.Example, Error: pg.OrNull(one.Error),
		})
	}
	return b
}

// MendBody is the JSON form of a Result, the same in the commands and in the monitor's API; so are the ones below.
type MendBody struct {
	// Action is requeue, skip or discard; State is that of the selected messages.
	Action string `json:"action"`
	State  State  `json:"state"`
	// Count is the number changed, or to be changed.
	Count int64 `json:"count"`
	// Complete is false where a dry run ended its count early: Count or more match.
	Complete bool `json:"complete"`
	// Waiting counts those that still wait behind an earlier dead message, Gone those that somebody else changed first.
	Waiting int64 `json:"waiting"`
	Gone    int64 `json:"gone"`
	DryRun  bool  `json:"dry_run"`
}

// Body returns the result's JSON form.
func (r Changed) Body(action string, state State, dryRun bool) MendBody {
	return MendBody{
		Action: action, State: cmp.Or(state, Dead), DryRun: dryRun, Count: r.Count, Complete: !r.More, Waiting: r.Waiting, Gone: r.Gone,
	}
}

// PauseBody is the JSON form of a PauseResult; Action is pause or resume.
type PauseBody struct {
	Action    string         `json:"action"`
	Changed   []partition.ID `json:"changed"`
	Unchanged []partition.ID `json:"unchanged"`
	DryRun    bool           `json:"dry_run"`
}

// Body returns the result's JSON form.
func (r PauseResult) Body(action string, dryRun bool) PauseBody {
	return PauseBody{
		Action: action, DryRun: dryRun,
		Changed: append([]partition.ID{}, r.Changed...), Unchanged: append([]partition.ID{}, r.Unchanged...),
	}
}

// DrainBody is the JSON form of a DrainResult; Action is drain or undrain.
type DrainBody struct {
	Action string    `json:"action"`
	Worker uuid.UUID `json:"worker_id"`
	// Requested is false where the worker had been asked before, or for undrain had not been asked to drain.
	Requested bool `json:"requested"`
	Others    int  `json:"active_others"`
	DryRun    bool `json:"dry_run"`
}

// Body returns the result's JSON form.
func (r DrainResult) Body(action string, worker uuid.UUID, dryRun bool) DrainBody {
	return DrainBody{Action: action, DryRun: dryRun, Worker: worker, Requested: r.Requested, Others: r.Others}
}
