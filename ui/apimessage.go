package ui

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/ui/source"
)

type messagesBody struct {
	Messages []ops.MessageBody `json:"messages"`
	// Next is the after of the next page, null at the end. A page may hold fewer
	// messages than its limit, even none, and still have a next one.
	Next *int64 `json:"next"`
	// LookedUpTo is how far looking came when its time was over before the page was full; null when it is full or the list ends.
	LookedUpTo *int64 `json:"looked_up_to"`
}

type detailBody struct {
	ops.DetailBody

	// MetadataHidden says that Metadata is null because it may not be seen.
	MetadataHidden bool `json:"metadata_hidden"`
}

// look runs one look at messages within its time.
func look[T any](h *Handler, r *http.Request, do func(context.Context, *ops.Operator) (T, error)) (T, error) {
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
	listing, err := look(h, r, func(ctx context.Context, op *ops.Operator) (ops.Listing, error) {
		return op.List(ctx, filter, page)
	})
	if err != nil {
		h.failBy(w, r, err, 0)
		return
	}
	body := messagesBody{Messages: []ops.MessageBody{}, Next: source.OrNull(listing.Next), LookedUpTo: source.OrNull(listing.LookedUpTo)}
	for _, m := range listing.Messages {
		body.Messages = append(body.Messages, m.Body())
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

// showMessage finds the message that the path names by sequence or by its event's id.
func (h *Handler) showMessage(r *http.Request) (ops.Detail, error) {
	return look(h, r, func(ctx context.Context, op *ops.Operator) (ops.Detail, error) {
		sequence, err := messageNamed(ctx, op, r.PathValue("message"))
		if err != nil {
			return ops.Detail{}, err
		}
		return op.Show(ctx, sequence)
	})
}

func messageNamed(ctx context.Context, op *ops.Operator, name string) (int64, error) {
	if n, err := strconv.ParseInt(name, 10, 64); err == nil && n > 0 && name[0] != '+' {
		return n, nil
	}
	if ops.CheckEventID(name) != nil {
		return 0, refused(ops.FieldSequence, "a sequence above 0 or an event's UUID, or enough of its beginning, was expected in the path")
	}
	id, err := op.FindEvent(ctx, name)
	if err != nil {
		return 0, err
	}
	return op.Find(ctx, id)
}

// payload sends a message's body as a file. Browsers must not show it: it is whatever a producer wrote.
func (h *Handler) payload(w http.ResponseWriter, r *http.Request) {
	who := identity(r)
	if h.options.Operator != nil && !h.mayReadPayload(who) {
		h.failWith(w, r, http.StatusForbidden, "payload_hidden",
			"Payloads are hidden. They are shown to operators where the monitor was started with --http-show-payload (Options.ShowPayload).")
		return
	}
	var sequence int64
	content, err := look(h, r, func(ctx context.Context, op *ops.Operator) (content []byte, err error) {
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

func newDetailBody(d ops.Detail, open bool) detailBody {
	b := detailBody{DetailBody: d.Body(), MetadataHidden: d.Event != nil && !open}
	if !open {
		b.Metadata = nil
	}
	return b
}
