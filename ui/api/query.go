package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/ui/act"
)

// messageParameters are the query parameters of a list of messages, named as the flags of `postrider messages list`.
var messageParameters = []string{
	"state", "partition", "stream", "topic", "type", "tenant", "id", "sequence", "error_contains", "error_family",
	"since", "until", "after", "limit", "newest_first",
}

// causeParameters are those of the causes of death, named as the flags of `postrider dead causes`.
var causeParameters = []string{"partition", "stream", "topic", "type", "tenant", "error_contains", "error_family", "since", "until"}

// parameters reads a query string. It refuses unknown and repeated names, and unreadable pairs: a filter dropped in silence would select too
// much. An empty value counts as none, as forms send it.
func parameters(r *http.Request, known, repeatable []string) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, act.Refused("query", "cannot be read")
	}
	for name, list := range values {
		if !slices.Contains(known, name) {
			if len(known) == 0 {
				return nil, act.Refused(name, "there is no such parameter; this address takes none")
			}
			return nil, act.Refused(name, "there is no such parameter; there are %s", strings.Join(known, ", "))
		}
		list = slices.DeleteFunc(list, func(v string) bool { return v == "" })
		if len(list) > 1 && !slices.Contains(repeatable, name) {
			return nil, act.Refused(name, "is given %d times", len(list))
		}
		if values[name] = list; len(list) == 0 {
			delete(values, name)
		}
	}
	return values, nil
}

func messageQuery(r *http.Request, now time.Time) (ops.Filter, ops.Page, error) {
	var f ops.Filter
	var p ops.Page
	values, err := parameters(r, messageParameters, []string{"state", "partition"})
	if err != nil {
		return f, p, err
	}
	if f, err = act.Filter(values, now); err != nil {
		return f, p, err
	}
	if text := values.Get("id"); text != "" {
		if f.EventID, err = uuid.Parse(text); err != nil || f.EventID == uuid.Nil {
			return f, p, act.Refused("id", "must be an event's UUID")
		}
	}
	if f.Sequence, err = act.Number(values, "sequence"); err != nil {
		return f, p, err
	}
	switch values.Get("newest_first") {
	case "", "false":
	case "true":
		p.Descending = true
	default:
		return f, p, act.Refused("newest_first", "must be true or false")
	}
	p.After, p.Limit, err = act.Paging(values)
	return f, p, err
}

// paging reads the page of a list without other parameters.
func paging(r *http.Request) (after int64, limit int, err error) {
	values, err := parameters(r, []string{"after", "limit"}, nil)
	if err != nil {
		return 0, 0, err
	}
	return act.Paging(values)
}
