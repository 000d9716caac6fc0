package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/partition"
)

// mostListed is the most entries of a page of the API.
const mostListed = 1000

// messageParameters are the names in the query string of a list of messages, as the flags of `postrider messages list` are called.
var messageParameters = []string{
	"state", "partition", "stream", "topic", "type", "id", "sequence", "error_contains", "since", "until", "after", "limit", "newest_first",
}

// refused is an error about one parameter or field.
func refused(field, format string, args ...any) error {
	return &ops.InputError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// parameters reads a query string. Unknown and repeated names are refused, as are pairs that cannot be read: a filter that is dropped in
// silence would choose too much. An empty value counts as none, as forms send it.
func parameters(r *http.Request, known, repeatable []string) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refused("query", "cannot be read")
	}
	for name, list := range values {
		if !slices.Contains(known, name) {
			if len(known) == 0 {
				return nil, refused(name, "there is no such parameter; this address takes none")
			}
			return nil, refused(name, "there is no such parameter; there are %s", strings.Join(known, ", "))
		}
		list = slices.DeleteFunc(list, func(v string) bool { return v == "" })
		if len(list) > 1 && !slices.Contains(repeatable, name) {
			return nil, refused(name, "is given %d times", len(list))
		}
		if values[name] = list; len(list) == 0 {
			delete(values, name)
		}
	}
	return values, nil
}

// messageQuery reads which messages a list shall show.
func messageQuery(r *http.Request, now time.Time) (ops.Filter, ops.Page, error) {
	var f ops.Filter
	var p ops.Page
	values, err := parameters(r, messageParameters, []string{"state", "partition"})
	if err != nil {
		return f, p, err
	}
	f.Stream, f.Topic, f.Type, f.ErrorContains = values.Get("stream"), values.Get("topic"), values.Get("type"), values.Get("error_contains")
	for _, name := range values["state"] {
		s, err := ops.ParseState(name)
		if err != nil {
			return f, p, err
		}
		f.States = append(f.States, s)
	}
	for _, text := range values["partition"] {
		id, err := partitionNumber(text)
		if err != nil {
			return f, p, err
		}
		f.Partitions = append(f.Partitions, id)
	}
	if text := values.Get("id"); text != "" {
		if f.EventID, err = uuid.Parse(text); err != nil || f.EventID == uuid.Nil {
			return f, p, refused("id", "must be an event's UUID")
		}
	}
	if f.Sequence, err = numberIn(values, "sequence", 1); err != nil {
		return f, p, err
	}
	if f.Since, err = momentIn(values, "since", now); err != nil {
		return f, p, err
	}
	if f.Until, err = momentIn(values, "until", now); err != nil {
		return f, p, err
	}
	switch values.Get("newest_first") {
	case "", "false":
	case "true":
		p.Descending = true
	default:
		return f, p, refused("newest_first", "must be true or false")
	}
	p.After, p.Limit, err = paging(values)
	return f, p, err
}

// paging reads after and limit.
func paging(values url.Values) (after int64, limit int, err error) {
	if after, err = numberIn(values, "after", 1); err != nil {
		return 0, 0, err
	}
	most, err := numberIn(values, "limit", 1)
	if err != nil {
		return 0, 0, err
	}
	if most > mostListed {
		return 0, 0, refused("limit", "must lie between 1 and %d, got %d", mostListed, most)
	}
	if most == 0 {
		most = defaultListed
	}
	return after, int(most), nil
}

const defaultListed = 100

// numberIn reads a whole number of at least least; 0 where there is none.
func numberIn(values url.Values, name string, least int64) (int64, error) {
	text := values.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || text[0] == '+' {
		return 0, refused(name, "must be a whole number of at least %d", least)
	}
	return n, nil
}

// momentIn reads a time, or a duration before now.
func momentIn(values url.Values, name string, now time.Time) (time.Time, error) {
	text := values.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := parseMoment(text, now)
	if err != nil {
		return time.Time{}, refused(name, "must be a time as 2026-01-02T03:04:05Z or a duration before now as 10m")
	}
	return at, nil
}

func parseMoment(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err == nil && at.IsZero() {
		err = fmt.Errorf("%s is no time", text)
	}
	return at, err
}

func partitionNumber(text string) (partition.ID, error) {
	n, err := strconv.ParseInt(text, 10, 16)
	if err != nil || n < 0 || text[0] == '+' {
		return 0, refused(ops.FieldPartition, "must be a whole number between 0 and %d", partition.MaxCount-1)
	}
	return partition.ID(n), nil
}
