package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/ui/act"
	"github.com/postrider/postrider/ui/source"
)

type messagesBody struct {
	Messages []ops.MessageBody `json:"messages"`
	// Next is the after of the next page, null at the end. A page may hold fewer
	// messages than its limit, even none, and still have a next one.
	Next *int64 `json:"next"`
	// LookedUpTo is the sequence at which a timeout ended the search; null when the page is full or the list ends.
	LookedUpTo *int64 `json:"looked_up_to"`
}

type detailBody struct {
	ops.DetailBody

	// MetadataHidden says that Metadata is null for lack of rights.
	MetadataHidden bool `json:"metadata_hidden"`
}

func (a *API) messages(_ http.ResponseWriter, r *http.Request) (any, error) {
	filter, page, err := messageQuery(r, a.desk.Now(r.Context()))
	if err != nil {
		return nil, err
	}
	listing, err := act.Look(a.desk, r, func(ctx context.Context, op *ops.Operator) (ops.Listing, error) {
		return op.List(ctx, filter, page)
	})
	if err != nil {
		return nil, err
	}
	body := messagesBody{Messages: []ops.MessageBody{}, Next: source.OrNull(listing.Next), LookedUpTo: source.OrNull(listing.LookedUpTo)}
	for _, m := range listing.Messages {
		body.Messages = append(body.Messages, m.Body())
	}
	return body, nil
}

func (a *API) causes(_ http.ResponseWriter, r *http.Request) (any, error) {
	values, err := parameters(r, causeParameters, []string{"partition"})
	if err != nil {
		return nil, err
	}
	filter, err := act.Filter(values, a.desk.Now(r.Context()))
	if err != nil {
		return nil, err
	}
	causes, err := act.Look(a.desk, r, func(ctx context.Context, op *ops.Operator) (ops.Causes, error) { return op.Causes(ctx, filter, 0) })
	return causes.Body(), err
}

func (a *API) message(_ http.ResponseWriter, r *http.Request) (any, error) {
	detail, err := a.desk.ShowMessage(r)
	return newDetailBody(detail, a.desk.MayReadPayload(act.Who(r))), err
}

// payload sends a message's body as a file. Browsers must not show it: a producer may have written anything.
func (a *API) payload(w http.ResponseWriter, r *http.Request) {
	who := act.Who(r)
	if a.desk.Means().Operator != nil && !a.desk.MayReadPayload(who) {
		Fail(w, http.StatusForbidden, "payload_hidden",
			"Payloads are hidden. They are shown to operators where the monitor was started with --http-show-payload (Options.ShowPayload).")
		return
	}
	var sequence int64
	content, err := act.Look(a.desk, r, func(ctx context.Context, op *ops.Operator) (content []byte, err error) {
		if sequence, err = act.MessageNamed(ctx, op, r.PathValue("message")); err != nil {
			return nil, err
		}
		return op.Payload(ctx, sequence)
	})
	if err != nil {
		a.failBy(w, r, err)
		return
	}
	a.desk.Logger.LogAttrs(r.Context(), slog.LevelInfo, "monitor shows a payload",
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
