package pages

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/ui/act"
	"github.com/postrider/postrider/web"
)

func (p *Pages) causes(w http.ResponseWriter, r *http.Request) error {
	now := p.desk.Now(r.Context())
	filter, err := readFilter(r.URL.Query(), now)
	if err != nil {
		return err
	}
	found, err := act.Look(p.desk, r, func(ctx context.Context, op *ops.Operator) (ops.Causes, error) {
		return op.Causes(ctx, filter.Filter, 0)
	})
	if err != nil {
		return err
	}
	page := web.Causes{
		Shell: p.shellOf(r, "Dead messages by cause", sectionMessages), Scope: inWords(filter.fields()), Others: found.Others, More: found.More,
	}
	page.Every = listEvery
	page.Total = found.Others
	for _, one := range found.List {
		page.Total += one.Count
		page.Rows = append(page.Rows, causeRow(one, found.List[0].Count, filter, now))
	}
	return p.send(w, r, http.StatusOK, "causes", page)
}

func causeRow(c ops.Cause, most int64, filter messageFilter, now time.Time) web.Cause {
	row := web.Cause{
		Count: c.Count, Topic: c.Topic, Type: c.Type, Class: c.Class, Share: int(max(1, 100*c.Count/most)), Example: c.Example, Error: c.Error,
		First: web.Moment{At: c.First, Now: now}, Last: web.Moment{At: c.Last, Now: now},
	}
	if c.Topic == "" || c.Type == "" || c.Family == "" {
		return row // a filter for it would select more
	}
	row.List = filter.query(paramState, string(ops.Dead), paramTopic, c.Topic, paramType, c.Type, paramFamily, c.Family)
	_, query, _ := strings.Cut(row.List, "?")
	row.Confirm = "messages/confirm?" + query + "&" + url.Values{paramFrom: {fromCauses}}.Encode() + "&" + paramAll + "="
	return row
}

// inWords describes a filter's fields.
func inWords(fields []web.Field) string {
	var parts []string
	for _, f := range fields {
		switch f.Name {
		case paramAll, paramState, paramFrom:
		case paramFamily:
			parts = append(parts, "last error like "+web.Plain(f.Value))
		default:
			parts = append(parts, strings.ReplaceAll(f.Name, "_", " ")+" "+web.Plain(f.Value))
		}
	}
	return strings.Join(parts, ", ")
}
