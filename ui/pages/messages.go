package pages

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/ui/act"
	"github.com/postrider/postrider/web"
)

const (
	// pageRows is the number of rows in a list.
	pageRows = 50
	// listEvery is the interval of a list's updates, in seconds.
	listEvery = 5
)

// listPage is the position of a page in a list.
type listPage struct {
	ops.Page
	// upwards pages were read from old to new, behind a message.
	upwards bool
	first   bool
}

func readListPage(q url.Values) (listPage, error) {
	p := listPage{Page: ops.Page{Limit: pageRows + 1, Descending: true}, first: true}
	for _, name := range []string{paramBefore, paramAfter} {
		text := q.Get(name)
		if text == "" {
			continue
		}
		n, err := readSequence(text)
		if err != nil {
			return p, err
		}
		p.After, p.first = n, false
		p.upwards = name == paramAfter
		p.Descending = !p.upwards
	}
	return p, nil
}

// messages serves the list. A wrong filter is shown with its complaint, so that people can mend it.
func (p *Pages) messages(w http.ResponseWriter, r *http.Request) error {
	now, seen := p.desk.Observe(r.Context())
	filter, err := readFilter(r.URL.Query(), now)
	page := web.Messages{Shell: p.shellOf(r, "Messages", sectionMessages), Filter: filter.form(seen), Carried: filter.fields()}
	var at listPage
	if err == nil {
		at, err = readListPage(r.URL.Query())
	}
	if err == nil {
		var listing ops.Listing
		listing, err = act.Look(p.desk, r, func(ctx context.Context, op *ops.Operator) (ops.Listing, error) {
			return op.List(ctx, filter.Filter, at.Page)
		})
		if err == nil {
			fillMessages(&page, filter, at, listing, now)
		}
	}
	status := http.StatusOK
	var input *ops.InputError
	switch {
	case errors.As(err, &input):
		c := p.desk.Complain(r.Context(), err)
		page.Problem, status = c.Message, c.Status
	case err != nil:
		return err
	}
	return p.send(w, r, status, "messages", page)
}

func fillMessages(page *web.Messages, f messageFilter, at listPage, listing ops.Listing, now time.Time) {
	// The query asked for one row more than is shown, which reveals a next page.
	full := len(listing.Messages) > pageRows
	if full {
		listing.Messages = listing.Messages[:pageRows]
		listing.Next = listing.Messages[pageRows-1].Sequence
	}
	if at.upwards {
		slices.Reverse(listing.Messages)
	}
	for _, m := range listing.Messages {
		page.Rows = append(page.Rows, messageRow(m, now))
	}
	page.First, page.AllState, page.Upwards = at.first, string(f.oneState()), at.upwards
	if !full {
		page.SearchedTo = listing.LookedUpTo
	}
	if at.first && page.SearchedTo == 0 {
		page.Every = listEvery
	}
	if len(page.Rows) == 0 {
		page.Missing = f.Sequence
	}
	page.Newer, page.Older = neighbours(f, at, listing)
	switch {
	case page.SearchedTo == 0:
	case at.upwards:
		page.SearchOn = page.Newer
	default:
		page.SearchOn = page.Older
	}
}

// neighbours returns the addresses of the pages before and after. A page without rows has them, too, as a search stops early.
func neighbours(f messageFilter, at listPage, listing ops.Listing) (newer, older string) {
	highest, lowest := at.After-1, at.After+1
	if n := len(listing.Messages); n > 0 {
		highest, lowest = listing.Messages[0].Sequence, listing.Messages[n-1].Sequence
	}
	if at.upwards {
		if listing.Next != 0 {
			newer = f.query(paramAfter, number(listing.Next))
		}
		return newer, f.query(paramBefore, number(lowest))
	}
	if !at.first {
		newer = f.query(paramAfter, number(max(1, highest)))
	}
	if listing.Next != 0 {
		older = f.query(paramBefore, number(listing.Next))
	}
	return newer, older
}

func messageRow(m ops.Message, now time.Time) web.MessageRow {
	row := web.MessageRow{
		Sequence: m.Sequence, State: string(m.State), Partition: int(m.Partition), Stream: m.Stream, Topic: m.Topic, Type: m.Type,
		Attempts: m.Attempts, At: web.Moment{At: m.RecordedAt, Now: now}, Error: m.LastError,
		Next: moment(m.AvailableAt, now), Settled: moment(m.PublishedAt, now),
	}
	if m.StreamSequence != nil {
		row.StreamSequence = *m.StreamSequence
	}
	switch m.State {
	case ops.Scheduled, ops.Failed:
	case ops.Pending:
		if !row.Next.Zero() && row.Next.At.Before(now) {
			row.Next = web.Moment{} // due now
		}
	default:
		row.Next = web.Moment{} // no time ends its wait
	}
	return row
}

func moment(at *time.Time, now time.Time) web.Moment {
	if at == nil {
		return web.Moment{}
	}
	return web.Moment{At: *at, Now: now}
}
