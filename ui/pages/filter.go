package pages

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/ui/act"
	"github.com/postrider/postrider/ui/source"
	"github.com/postrider/postrider/web"
)

// Names of the parameters that filter lists of messages, in addresses and forms alike.
const (
	paramState     = "state"
	paramPartition = "partition"
	paramStream    = "stream"
	paramTopic     = "topic"
	paramType      = "type"
	paramTenant    = "tenant"
	paramID        = "id"
	paramSequence  = "sequence"
	paramError     = "error_contains"
	paramFamily    = "error_family"
	paramSince     = "since"
	paramUntil     = "until"
	paramBefore    = "before"
	paramAfter     = "after"
)

// filterParams are the parameters of the filter, not of the page in it.
var filterParams = []string{
	paramState, paramPartition, paramStream, paramTopic, paramType, paramTenant, paramID, paramSequence,
	paramError, paramFamily, paramSince, paramUntil,
}

// messageFilter is the filter of a request.
type messageFilter struct {
	ops.Filter
	// given are the non-empty parameters.
	given url.Values
}

// readFilter reads the parameters. It ignores empty ones, which forms send.
func readFilter(q url.Values, now time.Time) (messageFilter, error) {
	f := messageFilter{given: url.Values{}}
	for _, name := range filterParams {
		for _, value := range q[name] {
			if value = strings.TrimSpace(value); value != "" {
				f.given.Add(name, value)
			}
		}
	}
	var err error
	if f.Filter, err = act.Filter(f.given, now); err != nil {
		return f, err
	}
	if text := f.given.Get(paramID); text != "" {
		if f.EventID, err = uuid.Parse(text); err != nil || f.EventID == uuid.Nil {
			return f, act.Refused(ops.FieldEventID, "must be a UUID, got %q", text)
		}
	}
	if text := f.given.Get(paramSequence); text != "" {
		if f.Sequence, err = readSequence(text); err != nil {
			return f, err
		}
	}
	return f, nil
}

// readSequence accepts the pages' grouping, too: 1,234.
func readSequence(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.ReplaceAll(text, ",", ""), 10, 64)
	if err != nil || n < 1 {
		return 0, act.Refused(ops.FieldSequence, "must be a whole number above 0, got %q", text)
	}
	return n, nil
}

// oneState returns the state of all selected messages, if an action can take them as a whole; empty: none.
func (f messageFilter) oneState() ops.State {
	if len(f.States) == 1 && (f.States[0] == ops.Dead || f.States[0] == ops.Failed) {
		return f.States[0]
	}
	return ""
}

// query returns the list's address under this filter, relative to the root.
func (f messageFilter) query(changes ...string) string {
	q := url.Values{}
	for name, values := range f.given {
		q[name] = slices.Clone(values)
	}
	for i := 0; i+1 < len(changes); i += 2 {
		q.Del(changes[i])
		if changes[i+1] != "" {
			q.Set(changes[i], changes[i+1])
		}
	}
	if len(q) == 0 {
		return "messages"
	}
	return "messages?" + q.Encode()
}

// fields returns the filter as hidden fields of a form.
func (f messageFilter) fields() []web.Field {
	var list []web.Field
	for _, name := range filterParams {
		for _, value := range f.given[name] {
			list = append(list, web.Field{Name: name, Value: value})
		}
	}
	return list
}

// form returns the filter as the page shows it, with the states' counts.
func (f messageFilter) form(seen *source.Observation) web.Filter {
	form := web.Filter{
		Partition: strings.Join(f.given[paramPartition], " "), Stream: f.given.Get(paramStream), Topic: f.given.Get(paramTopic),
		Type: f.given.Get(paramType), Tenant: f.given.Get(paramTenant), ID: f.given.Get(paramID), Sequence: f.given.Get(paramSequence), Error: f.given.Get(paramError),
		Family: f.given.Get(paramFamily), Since: f.given.Get(paramSince), Until: f.given.Get(paramUntil),
		Active: len(f.given) > 0,
	}
	counts := map[ops.State]int64{}
	if seen != nil {
		sum := seen.Summary()
		counts = map[ops.State]int64{
			ops.Pending: sum.Pending, ops.Scheduled: sum.Scheduled, ops.Failed: sum.Failed, ops.Blocked: sum.Blocked, ops.Dead: sum.Dead,
		}
	}
	form.States = append(form.States, web.StateChoice{Chosen: len(f.given[paramState]) == 0, Query: f.query(paramState, "")})
	for _, state := range ops.States() {
		count, known := counts[state]
		form.States = append(form.States, web.StateChoice{
			State: string(state), Chosen: slices.Contains(f.given[paramState], string(state)),
			Known: known, Count: count, Query: f.query(paramState, string(state)),
		})
	}
	return form
}
