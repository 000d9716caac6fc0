package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui/act"
)

// messagesCommand is the body of an action on messages: sequences, or a filter, or all.
type messagesCommand struct {
	State     string         `json:"state"`
	Sequences []int64        `json:"sequences"`
	Filter    *filterCommand `json:"filter"`
	All       bool           `json:"all"`
	// Limit bounds the changed messages, the first ones of each stream.
	Limit  *int64 `json:"limit"`
	DryRun bool   `json:"dry_run"`
	// Expected refuses the action when another number of messages matches.
	Expected *int64 `json:"expected_count"`
	// AtLeast refuses the action when fewer match; it belongs to an incomplete count.
	AtLeast *int64 `json:"expected_at_least"`
	Reason  string `json:"reason"`
}

// filterCommand holds pointers, since an empty text must not select all.
type filterCommand struct {
	Partitions    []int   `json:"partitions"`
	Stream        *string `json:"stream"`
	Topic         *string `json:"topic"`
	Type          *string `json:"type"`
	Tenant        *string `json:"tenant"`
	ID            *string `json:"id"`
	ErrorContains *string `json:"error_contains"`
	ErrorFamily   *string `json:"error_family"`
	Since         *string `json:"since"`
	Until         *string `json:"until"`
}

type partitionsCommand struct {
	Partitions []int  `json:"partitions"`
	All        bool   `json:"all"`
	DryRun     bool   `json:"dry_run"`
	Reason     string `json:"reason"`
}

type drainCommand struct {
	DryRun bool   `json:"dry_run"`
	Reason string `json:"reason"`
}

// countTimeout ends the count of a dry run, whose answer then says that it is incomplete.
const countTimeout = 5 * time.Second

func (a *API) postMessages(action act.MessageVerb) answer {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		var body messagesCommand
		if err := a.readCommand(w, r, &body); err != nil {
			return nil, err
		}
		selection, err := body.selection(a.desk.Now(r.Context()))
		if err != nil {
			return nil, err
		}
		var limit int64
		if body.Limit != nil {
			if limit = *body.Limit; limit < 1 {
				return nil, act.Refused(ops.FieldLimit, "must be at least 1, got %d", limit)
			}
		}
		act.Prolong(w)
		if body.Expected != nil && body.AtLeast != nil {
			return nil, act.Refused(ops.FieldAtLeast, "and expected_count exclude each other")
		}
		result, err := a.desk.OnMessages(r.Context(), act.Who(r), action, ops.Command{
			Selection: selection, DryRun: body.DryRun, CountWithin: countTimeout, Expected: cmp.Or(body.Expected, body.AtLeast),
			AtLeast: body.AtLeast != nil, Most: limit, Reason: body.Reason,
		})
		if err != nil {
			c := a.desk.Complain(r.Context(), err)
			c.Count = result.Count
			return nil, decidedError{c}
		}
		return result.Body(action.Name, selection.State, body.DryRun), nil
	}
}

func (a *API) postPartitions(action act.PartitionVerb) answer {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		var body partitionsCommand
		if err := a.readCommand(w, r, &body); err != nil {
			return nil, err
		}
		ids, err := partitionIDs(body.Partitions)
		if err != nil {
			return nil, err
		}
		result, err := a.desk.OnPartitions(r.Context(), act.Who(r), action,
			ops.PauseCommand{Partitions: ids, All: body.All, DryRun: body.DryRun, Reason: body.Reason})
		return result.Body(action.Name, body.DryRun), err
	}
}

func (a *API) postWorker(action act.WorkerAction) answer {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		var body drainCommand
		if err := a.readCommand(w, r, &body); err != nil {
			return nil, err
		}
		id, err := act.Look(a.desk, r, func(ctx context.Context, op *ops.Operator) (uuid.UUID, error) {
			return op.FindWorker(ctx, r.PathValue("worker"))
		})
		if err != nil {
			return nil, err
		}
		result, err := a.desk.OnWorker(r.Context(), act.Who(r), action, ops.DrainCommand{Worker: id, DryRun: body.DryRun, Reason: body.Reason})
		return result.Body(action.Name, id, body.DryRun), err
	}
}

// readCommand reads a JSON object into body. It refuses all but application/json, which other sites' pages cannot send without a preflight,
// and unknown fields, since a misspelt one would widen the selection.
func (a *API) readCommand(w http.ResponseWriter, r *http.Request, body any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		w.Header().Set("Accept", "application/json")
		return decided(http.StatusUnsupportedMediaType, "unsupported_media_type", "Send application/json.")
	}
	if _, err := a.desk.MayAct(act.Who(r)); err != nil {
		return err
	}
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(body)
	if err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is something behind the JSON object")
		}
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return decided(http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("The body is larger than %d bytes.", tooLarge.Limit))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return decided(http.StatusRequestTimeout, "slow_body", "The body did not arrive in time.")
	case err != nil:
		return unreadable(err)
	}
	return nil
}

// unreadable names the field at which a decoder stopped.
func unreadable(err error) error {
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return act.Refused(cmp.Or(kind.Field, "body"), "must not be a JSON %s", kind.Value)
	}
	const unknown = "json: unknown field "
	if name, found := strings.CutPrefix(err.Error(), unknown); found {
		return act.Refused(strings.Trim(name, `"`), "there is no such field")
	}
	if errors.Is(err, io.EOF) {
		return act.Refused("body", "is empty; send a JSON object")
	}
	return act.Refused("body", "is not one JSON object: %s", strings.TrimPrefix(err.Error(), "json: "))
}

func (c messagesCommand) selection(now time.Time) (ops.Selection, error) {
	s := ops.Selection{State: ops.State(c.State), Sequences: c.Sequences, All: c.All}
	if len(c.Sequences) > ops.MaxLimit {
		return s, act.Refused(ops.FieldSequence, "at most %d can be named at once, got %d", ops.MaxLimit, len(c.Sequences))
	}
	if c.Filter == nil {
		return s, nil
	}
	var err error
	s.Filter, err = c.Filter.filter(now)
	if err == nil && s.Filter.Empty() {
		err = act.Refused("filter", "is empty; to choose every message say all")
	}
	return s, err
}

func (c filterCommand) filter(now time.Time) (ops.Filter, error) {
	values, err := given(map[string]*string{
		"stream": c.Stream, "topic": c.Topic, "type": c.Type, "tenant": c.Tenant,
		"error_contains": c.ErrorContains, "error_family": c.ErrorFamily, "since": c.Since, "until": c.Until,
	})
	if err == nil && c.Partitions != nil && len(c.Partitions) == 0 {
		err = act.Refused("partitions", "must not be empty")
	}
	if err != nil {
		return ops.Filter{}, err
	}
	f, err := act.Filter(values, now)
	if err != nil {
		return f, err
	}
	if f.Partitions, err = partitionIDs(c.Partitions); err != nil {
		return f, err
	}
	if c.ID != nil {
		if f.EventID, err = uuid.Parse(*c.ID); err != nil || f.EventID == uuid.Nil {
			return f, act.Refused("id", "must be an event's UUID")
		}
	}
	return f, nil
}

// given makes parameters of a body's fields. It refuses an empty one, which must not select all.
func given(fields map[string]*string) (url.Values, error) {
	values := url.Values{}
	for name, text := range fields {
		if text == nil {
			continue
		}
		if *text == "" {
			return nil, act.Refused(name, "must not be empty")
		}
		values.Set(name, *text)
	}
	return values, nil
}

func partitionIDs(numbers []int) ([]partition.ID, error) {
	ids := make([]partition.ID, 0, len(numbers))
	for _, n := range numbers {
		if n < 0 || n >= int(partition.MaxCount) {
			return nil, act.Refused(ops.FieldPartition, "must lie between 0 and %d, got %d", partition.MaxCount-1, n)
		}
		ids = append(ids, partition.ID(n))
	}
	return ids, nil
}
