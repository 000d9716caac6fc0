package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// messagesTarget names the changed messages in a row of the audit.
type messagesTarget struct {
	Sequences  []int64        `json:"sequences"`
	Partitions []partition.ID `json:"partitions"`
	Selection  selectionBody  `json:"selection"`
}

// selectionBody holds the messages' selection; empty where they were named.
type selectionBody struct {
	State         State          `json:"state"`
	All           bool           `json:"all,omitempty"`
	Partitions    []partition.ID `json:"partitions,omitempty"`
	Stream        string         `json:"stream,omitempty"`
	Topic         string         `json:"topic,omitempty"`
	Type          string         `json:"type,omitempty"`
	Tenant        string         `json:"tenant,omitempty"`
	EventID       *uuid.UUID     `json:"event_id,omitempty"`
	ErrorContains string         `json:"error_contains,omitempty"`
	ErrorFamily   string         `json:"error_family,omitempty"`
	Since         *time.Time     `json:"since,omitempty"`
	Until         *time.Time     `json:"until,omitempty"`
	Limit         int64          `json:"limit,omitempty"`
}

// messagesDetails keeps former states, since the outbox forgets them.
type messagesDetails struct {
	Count   int   `json:"count"`
	Waiting int64 `json:"waiting,omitempty"`
	// To is the moved messages' new time.
	To       *time.Time `json:"to,omitempty"`
	Messages []changed  `json:"messages"`
}

// auditMessages records a chunk.
func (o *Operator) auditMessages(ctx context.Context, tx pgx.Tx, c Command, op operation, done []changed, waiting int64) error {
	f := c.Selection.Filter
	target := messagesTarget{Partitions: partitionsOf(done), Selection: selectionBody{
		State: c.Selection.State, All: c.Selection.All, Partitions: f.Partitions, Stream: f.Stream, Topic: f.Topic, Type: f.Type,
		Tenant: f.Tenant, Limit: c.Most, EventID: pg.OrNull(f.EventID), ErrorContains: f.ErrorContains, ErrorFamily: f.ErrorFamily,
		Since: timeOrNull(f.Since), Until: timeOrNull(f.Until),
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

// AuditEntry is one row of the audit: who did what, when and why.
type AuditEntry struct {
	// ID grows with time; entries of transactions at the same time may swap.
	ID     int64
	At     time.Time
	Actor  string
	Action string
	// Reason is empty where none was given.
	Reason string
	// Target names the changed things, Details their state before: JSON objects whose fields depend on the action. nil: none.
	Target, Details json.RawMessage
}

// AuditPage is a part of the audit, the newest first.
type AuditPage struct {
	Entries []AuditEntry
	// Next is the After of the page behind this one; 0: there is none.
	Next int64
}

// Audit returns a page of the audit, the newest entries first. The page begins behind the id after, 0: at the newest; limit bounds its
// entries, 1 to MaxLimit, 0: 100.
func (o *Operator) Audit(ctx context.Context, after int64, limit int) (AuditPage, error) {
	p := Page{After: after, Limit: limit}
	if err := p.validate(); err != nil {
		return AuditPage{}, err
	}
	p = p.withDefaults()
	p.After = cmp.Or(p.After, math.MaxInt64)
	var page AuditPage
	err := o.outbox.Read(ctx, func(tx pgx.Tx) (err error) {
		page.Entries, err = pg.Collect(ctx, tx, o.sql.AuditPage, pg.Args{"before": p.After, "limit": p.Limit}, pgx.RowToStructByPos[AuditEntry])
		return err
	})
	if err != nil {
		return AuditPage{}, fmt.Errorf("read the audit: %w", err)
	}
	if len(page.Entries) == p.Limit {
		page.Next = page.Entries[p.Limit-1].ID
	}
	return page, nil
}

const latestActions = 50

// actionsOn returns operators' actions on a message. Looking at a message takes no right to the audit: without it there is nothing to tell.
func (o *Operator) actionsOn(ctx context.Context, tx pgx.Tx, sequence int64) ([]MessageAction, error) {
	var may bool
	if err := o.sql.MayReadAudit.Row(ctx, tx, nil).Scan(&may); err != nil || !may {
		return nil, err
	}
	return pg.Collect(ctx, tx, o.sql.Actions, pg.Args{"sequence": sequence, "limit": latestActions}, pgx.RowToStructByPos[MessageAction])
}
