package pages

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/ui/act"
	"github.com/postrider/postrider/web"
)

// stream serves one stream: a page of its events, the newest first.
func (p *Pages) stream(w http.ResponseWriter, r *http.Request) error {
	now := p.desk.Now(r.Context())
	q := r.URL.Query()
	filter, err := readFilter(url.Values{paramStream: {q.Get(paramStream)}}, now)
	if err == nil && filter.Stream == "" {
		err = act.Refused(ops.FieldStream, "is required")
	}
	var at listPage
	if err == nil {
		at, err = readListPage(q)
	}
	if err != nil {
		return err
	}
	listing, err := act.Look(p.desk, r, func(ctx context.Context, op *ops.Operator) (ops.Listing, error) {
		return op.List(ctx, filter.Filter, at.Page)
	})
	if err != nil {
		return err
	}
	more := map[int64]ops.Message{}
	for _, m := range listing.Messages {
		more[m.Sequence] = m
	}
	var list web.Messages // a page of it is a page of the list
	fillMessages(&list, filter, at, listing, now)
	page := web.Stream{
		Shell: p.shellOf(r, "Stream "+filter.Stream, sectionMessages), ID: filter.Stream, Newer: ofStream(list.Newer), Older: ofStream(list.Older),
		SearchedTo: list.SearchedTo, SearchOn: ofStream(list.SearchOn), Upwards: list.Upwards,
	}
	page.Every = list.Every
	blocked := false // a message waits behind another, as the failure policy may demand
	for _, row := range list.Rows {
		page.Rows = append(page.Rows, web.StreamRow{
			MessageRow: row, Version: more[row.Sequence].StreamVersion, Generation: int64(more[row.Sequence].Generation),
		})
		blocked = blocked || row.State == string(ops.Blocked)
		if blocked && row.Selectable() {
			page.Standing = &row
		}
	}
	if blocked && page.Standing == nil { // a later page has the message that blocks them
		filter.States = []ops.State{ops.Failed, ops.Dead}
		listing, err = act.Look(p.desk, r, func(ctx context.Context, op *ops.Operator) (ops.Listing, error) {
			return op.List(ctx, filter.Filter, ops.Page{Limit: 1})
		})
		if err != nil {
			return err
		}
		for _, m := range listing.Messages {
			page.Standing = new(messageRow(m, now))
		}
	}
	web.PlaceStream(page.Rows, now)
	return p.send(w, r, http.StatusOK, "stream", page)
}

// ofStream turns a list's address into the stream's page.
func ofStream(list string) string {
	if list == "" {
		return ""
	}
	return "streams" + strings.TrimPrefix(list, "messages")
}
