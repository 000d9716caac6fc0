package ui

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery/admin"
)

type messagesBody struct {
	Messages []admin.MessageBody `json:"messages"`
	// Next is the after of the next page, null at the end. A page may hold fewer
	// messages than its limit, even none, and still have a next one.
	Next *int64 `json:"next"`
	// LookedUpTo is how far looking came when its time was over before the page
	// was full; null when it is full or the list ends.
	LookedUpTo *int64 `json:"looked_up_to"`
}

type detailBody struct {
	admin.DetailBody

	// MetadataHidden says that Metadata is null because it may not be seen.
	MetadataHidden bool                `json:"metadata_hidden"`
	Actions        []messageActionBody `json:"actions"`
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
	body := messagesBody{Messages: []admin.MessageBody{}, Next: orNull(listing.Next), LookedUpTo: orNull(listing.LookedUpTo)}
	for _, m := range listing.Messages {
		body.Messages = append(body.Messages, m.Body(time.UTC))
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

func newDetailBody(d admin.Detail, open bool) detailBody {
	b := detailBody{DetailBody: d.Body(time.UTC), MetadataHidden: d.Event != nil && !open, Actions: []messageActionBody{}}
	if !open {
		b.Metadata = nil
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
