package ops

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/partition"
)

// messagesTarget is what a row of the audit says about the messages that were
// changed.
type messagesTarget struct {
	Sequences  []int64        `json:"sequences"`
	Partitions []partition.ID `json:"partitions"`
	Selection  selectionBody  `json:"selection"`
}

// selectionBody is how they were selected; empty where they were named.
type selectionBody struct {
	State         State          `json:"state"`
	All           bool           `json:"all,omitempty"`
	Partitions    []partition.ID `json:"partitions,omitempty"`
	Stream        string         `json:"stream,omitempty"`
	Topic         string         `json:"topic,omitempty"`
	Type          string         `json:"type,omitempty"`
	EventID       *uuid.UUID     `json:"event_id,omitempty"`
	ErrorContains string         `json:"error_contains,omitempty"`
	Since         *time.Time     `json:"since,omitempty"`
	Until         *time.Time     `json:"until,omitempty"`
}

// messagesDetails is what they were, since the outbox forgets it.
type messagesDetails struct {
	Count   int   `json:"count"`
	Waiting int64 `json:"waiting,omitempty"`
	// To is when moved messages are due.
	To       *time.Time `json:"to,omitempty"`
	Messages []changed  `json:"messages"`
}

// auditMessages records a chunk.
func (o *Operator) auditMessages(ctx context.Context, tx pgx.Tx, c Command, op operation, done []changed, waiting int64) error {
	f := c.Selection.Filter
	target := messagesTarget{Partitions: partitionsOf(done), Selection: selectionBody{
		State: c.Selection.State, All: c.Selection.All, Partitions: f.Partitions, Stream: f.Stream, Topic: f.Topic, Type: f.Type,
		EventID: orNull(f.EventID), ErrorContains: f.ErrorContains, Since: timeOrNull(f.Since), Until: timeOrNull(f.Until),
	}}
	for _, d := range done {
		target.Sequences = append(target.Sequences, d.Sequence)
	}
	return o.outbox.Record(ctx, tx, c.Actor, string(c.Selection.State)+"."+op.name, target, c.Reason,
		messagesDetails{Count: len(done), Waiting: waiting, To: op.to, Messages: done})
}

// partitionsOf lists the partitions of a change, each once, ascending.
func partitionsOf(rows []changed) []partition.ID {
	var list []partition.ID
	for _, r := range rows { // they come in that order
		if len(list) == 0 || list[len(list)-1] != r.Partition {
			list = append(list, r.Partition)
		}
	}
	return list
}
