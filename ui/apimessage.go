package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery/admin"
)

type messagesBody struct {
	Messages []messageBody `json:"messages"`
	// Next is the after of the next page, null at the end. A page may hold fewer
	// messages than its limit, even none, and still have a next one.
	Next *int64 `json:"next"`
	// LookedUpTo is how far looking came when its time was over before the page
	// was full; null when it is full or the list ends.
	LookedUpTo *int64 `json:"looked_up_to"`
}

// messageBody is a message in a list; its fields are those of
// `postrider messages list --json`.
type messageBody struct {
	Sequence       int64       `json:"global_sequence"`
	Partition      int         `json:"partition_key"`
	Stream         string      `json:"stream_id"`
	Topic          string      `json:"topic"`
	State          admin.State `json:"state"`
	Attempts       int         `json:"attempts"`
	Generation     int         `json:"generation"`
	AvailableAt    *time.Time  `json:"available_at"`
	DeadAt         *time.Time  `json:"dead_at"`
	PublishedAt    *time.Time  `json:"published_at"`
	StreamSequence *int64      `json:"stream_sequence"`
	LastError      *string     `json:"last_error"`
	EventID        *uuid.UUID  `json:"event_id"`
	Type           *string     `json:"event_type"`
	StreamVersion  *int64      `json:"stream_version"`
	RecordedAt     *time.Time  `json:"recorded_at"`
}

type detailBody struct {
	messageBody
	TenantID   *string    `json:"tenant_id"`
	OccurredAt *time.Time `json:"occurred_at"`
	AuditOnly  bool       `json:"audit_only"`
	// Metadata is null where there is none, and where MetadataHidden says so.
	Metadata       json.RawMessage     `json:"metadata"`
	MetadataHidden bool                `json:"metadata_hidden"`
	Deliveries     []deliveryBody      `json:"deliveries"`
	BlockedBy      *neighbourBody      `json:"blocked_by"`
	Behind         int64               `json:"behind"`
	BehindMore     bool                `json:"behind_more"`
	Next           []neighbourBody     `json:"next_behind"`
	Actions        []messageActionBody `json:"actions"`
}

type deliveryBody struct {
	State          admin.State `json:"state"`
	PublishedAt    time.Time   `json:"published_at"`
	StreamSequence *int64      `json:"stream_sequence"`
	Partition      int         `json:"partition_key"`
	Epoch          int64       `json:"lease_epoch"`
	Attempts       int         `json:"attempts"`
	Generation     int         `json:"generation"`
	Lost           bool        `json:"lost"`
}

type neighbourBody struct {
	Sequence int64       `json:"global_sequence"`
	State    admin.State `json:"state"`
}

// messageActionBody is what an operator did to a message, and what the message
// was before.
type messageActionBody struct {
	ID         int64     `json:"id"`
	At         time.Time `json:"at"`
	Actor      string    `json:"actor"`
	Action     string    `json:"action"`
	Reason     *string   `json:"reason"`
	Attempts   int       `json:"attempts"`
	Generation int       `json:"generation"`
	LastError  *string   `json:"last_error"`
}

// look runs one look at messages within its time.
func look[T any](h *Handler, r *http.Request, do func(context.Context, *admin.Operator) (T, error)) (T, error) {
	if h.options.Operator == nil {
		var nothing T
		return nothing, errNoOperator
	}
	ctx, cancel := context.WithTimeout(r.Context(), lookTimeout)
	defer cancel()
	return do(ctx, h.options.Operator)
}

func (h *Handler) messages(w http.ResponseWriter, r *http.Request) {
	filter, page, err := messageQuery(r, time.Now())
	if err != nil {
		h.failBy(w, r, err, 0)
		return
	}
	listing, err := look(h, r, func(ctx context.Context, op *admin.Operator) (admin.Listing, error) {
		return op.List(ctx, filter, page)
	})
	if err != nil {
		h.failBy(w, r, err, 0)
		return
	}
	body := messagesBody{Messages: []messageBody{}, Next: orNull(listing.Next), LookedUpTo: orNull(listing.LookedUpTo)}
	for _, m := range listing.Messages {
		body.Messages = append(body.Messages, newMessageBody(m))
	}
	writeJSON(w, http.StatusOK, body)
}

func (h *Handler) message(w http.ResponseWriter, r *http.Request) {
	detail, err := h.showMessage(r)
	if err != nil {
		h.failBy(w, r, err, 0)
		return
	}
	writeJSON(w, http.StatusOK, newDetailBody(detail, h.mayReadPayload(identity(r))))
}

// showMessage finds the message that the path names by sequence or by its
// event's id.
func (h *Handler) showMessage(r *http.Request) (admin.Detail, error) {
	return look(h, r, func(ctx context.Context, op *admin.Operator) (admin.Detail, error) {
		sequence, err := messageNamed(ctx, op, r.PathValue("message"))
		if err != nil {
			return admin.Detail{}, err
		}
		return op.Show(ctx, sequence)
	})
}

func messageNamed(ctx context.Context, op *admin.Operator, name string) (int64, error) {
	if n, err := strconv.ParseInt(name, 10, 64); err == nil && n > 0 && name[0] != '+' {
		return n, nil
	}
	if id, err := uuid.Parse(name); err == nil && id != uuid.Nil {
		return op.Find(ctx, id)
	}
	return 0, refused(admin.FieldSequence, "a sequence above 0 or an event's UUID was expected in the path")
}

// payload sends a message's body as a file. Browsers must not show it: it is
// whatever a producer wrote.
func (h *Handler) payload(w http.ResponseWriter, r *http.Request) {
	who := identity(r)
	if h.options.Operator != nil && !h.mayReadPayload(who) {
		h.failWith(w, r, http.StatusForbidden, "payload_hidden",
			"Payloads are hidden. They are shown to operators where the monitor was started with --http-show-payload (Options.ShowPayload).")
		return
	}
	var sequence int64
	content, err := look(h, r, func(ctx context.Context, op *admin.Operator) (content []byte, err error) {
		if sequence, err = messageNamed(ctx, op, r.PathValue("message")); err != nil {
			return nil, err
		}
		return op.Payload(ctx, sequence)
	})
	if err != nil {
		h.failBy(w, r, err, 0)
		return
	}
	h.options.Logger.LogAttrs(r.Context(), slog.LevelInfo, "monitor shows a payload",
		slog.String(logActor, who.Name), slog.Int64("sequence", sequence))
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="event-%d.bin"`, sequence))
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = w.Write(content) // the connection may be gone
}

func newMessageBody(m admin.Message) messageBody {
	return messageBody{
		Sequence: m.Sequence, Partition: int(m.Partition), Stream: m.Stream, Topic: m.Topic, State: m.State,
		Attempts: m.Attempts, Generation: m.Generation, AvailableAt: utc(m.AvailableAt), DeadAt: utc(m.DeadAt), PublishedAt: utc(m.PublishedAt),
		StreamSequence: m.StreamSequence, LastError: orNull(m.LastError), EventID: orNull(m.EventID), Type: orNull(m.Type),
		StreamVersion: orNull(m.StreamVersion), RecordedAt: utc(orNull(m.RecordedAt)),
	}
}

func newDetailBody(d admin.Detail, open bool) detailBody {
	b := detailBody{
		messageBody: newMessageBody(d.Message), Behind: d.Behind, BehindMore: d.BehindMore,
		Deliveries: []deliveryBody{}, Next: []neighbourBody{}, Actions: []messageActionBody{},
	}
	if d.Event != nil {
		b.TenantID, b.OccurredAt, b.AuditOnly = orNull(d.Event.TenantID), utc(d.Event.OccurredAt), d.Event.AuditOnly
		b.Metadata, b.MetadataHidden = d.Event.Metadata, !open
	}
	if !open {
		b.Metadata = nil
	}
	for _, one := range d.Deliveries {
		b.Deliveries = append(b.Deliveries, deliveryBody{
			State: one.State, PublishedAt: one.PublishedAt.UTC(), StreamSequence: one.StreamSequence, Partition: int(one.Partition),
			Epoch: one.Epoch, Attempts: one.Attempts, Generation: one.Generation, Lost: one.Lost,
		})
	}
	for _, n := range d.Next {
		b.Next = append(b.Next, neighbourBody(n))
	}
	if d.BlockedBy != nil {
		by := neighbourBody(*d.BlockedBy)
		b.BlockedBy = &by
	}
	for _, a := range d.Actions {
		b.Actions = append(b.Actions, messageActionBody{
			ID: a.ID, At: a.At.UTC(), Actor: a.Actor, Action: a.Action, Reason: orNull(a.Reason),
			Attempts: a.Attempts, Generation: a.Generation, LastError: orNull(a.LastError),
		})
	}
	return b
}

// orNull makes JSON's null of what is not there.
func orNull[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}
