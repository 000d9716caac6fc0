package ui

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery/admin"
	"github.com/postrider/postrider/partition"
)

// messagesCommand is the body of an action on messages: sequences, or a filter,
// or all.
type messagesCommand struct {
	State     string         `json:"state"`
	Sequences []int64        `json:"sequences"`
	Filter    *filterCommand `json:"filter"`
	All       bool           `json:"all"`
	DryRun    bool           `json:"dry_run"`
	// Expected refuses the action when another number of messages matches.
	Expected *int64 `json:"expected_count"`
	// AtLeast refuses it when fewer match; it goes with a count that is not complete.
	AtLeast *int64 `json:"expected_at_least"`
	Reason  string `json:"reason"`
}

// filterCommand holds pointers, since an empty text must not choose everything.
type filterCommand struct {
	Partitions    []int   `json:"partitions"`
	Stream        *string `json:"stream"`
	Topic         *string `json:"topic"`
	Type          *string `json:"type"`
	ID            *string `json:"id"`
	ErrorContains *string `json:"error_contains"`
	Since         *string `json:"since"`
	Until         *string `json:"until"`
}

type messagesResult struct {
	Action string `json:"action"`
	DryRun bool   `json:"dry_run"`
	// Count is how many were changed, or would be.
	Count int64 `json:"count"`
	// Complete is false where a dry run ended its count early: that many or more
	// match.
	Complete bool `json:"complete"`
	// Waiting is how many of them still wait behind an earlier dead message.
	Waiting int64 `json:"waiting"`
	// Gone is how many somebody else changed first.
	Gone int64 `json:"gone"`
}

type partitionsCommand struct {
	Partitions []int  `json:"partitions"`
	All        bool   `json:"all"`
	DryRun     bool   `json:"dry_run"`
	Reason     string `json:"reason"`
}

type partitionsResult struct {
	Action    string         `json:"action"`
	DryRun    bool           `json:"dry_run"`
	Changed   []partition.ID `json:"changed"`
	Unchanged []partition.ID `json:"unchanged"`
}

type drainCommand struct {
	DryRun bool   `json:"dry_run"`
	Reason string `json:"reason"`
}

type drainResult struct {
	Action    string    `json:"action"`
	DryRun    bool      `json:"dry_run"`
	Worker    uuid.UUID `json:"worker_id"`
	Requested bool      `json:"requested"`
	Others    int       `json:"active_others"`
}

func (h *Handler) postMessages(action messageAction) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body messagesCommand
		if !h.readCommand(w, r, &body) {
			return
		}
		selection, err := body.selection(time.Now())
		if err != nil {
			h.failBy(w, r, err, 0)
			return
		}
		// The server's timeout is for looks; not every server lets it be moved.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(actTimeout + lookTimeout))
		if body.Expected != nil && body.AtLeast != nil {
			h.failBy(w, r, refused(admin.FieldAtLeast, "and expected_count exclude each other"), 0)
			return
		}
		result, err := h.actOnMessages(r.Context(), identity(r), action, admin.Command{
			Selection: selection, DryRun: body.DryRun, CountWithin: countTimeout, Expected: cmp.Or(body.Expected, body.AtLeast),
			AtLeast: body.AtLeast != nil, Reason: body.Reason,
		})
		if err != nil {
			h.failBy(w, r, err, result.Count)
			return
		}
		writeJSON(w, http.StatusOK, messagesResult{
			Action: action.name, DryRun: body.DryRun, Count: result.Count, Complete: !result.More, Waiting: result.Waiting, Gone: result.Gone,
		})
	}
}

func (h *Handler) postPartitions(action partitionAction) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body partitionsCommand
		if !h.readCommand(w, r, &body) {
			return
		}
		ids, err := partitionIDs(body.Partitions)
		if err != nil {
			h.failBy(w, r, err, 0)
			return
		}
		result, err := h.actOnPartitions(r.Context(), identity(r), action,
			admin.PauseCommand{Partitions: ids, All: body.All, DryRun: body.DryRun, Reason: body.Reason})
		if err != nil {
			h.failBy(w, r, err, 0)
			return
		}
		writeJSON(w, http.StatusOK, partitionsResult{
			Action: action.name, DryRun: body.DryRun,
			Changed: append([]partition.ID{}, result.Changed...), Unchanged: append([]partition.ID{}, result.Unchanged...),
		})
	}
}

func (h *Handler) postDrain(w http.ResponseWriter, r *http.Request) {
	var body drainCommand
	if !h.readCommand(w, r, &body) {
		return
	}
	id, err := uuid.Parse(r.PathValue("worker"))
	if err != nil || id == uuid.Nil {
		h.failBy(w, r, refused(admin.FieldWorker, "a worker's UUID was expected in the path"), 0)
		return
	}
	result, err := h.drainWorker(r.Context(), identity(r), admin.DrainCommand{Worker: id, DryRun: body.DryRun, Reason: body.Reason})
	if err != nil {
		h.failBy(w, r, err, 0)
		return
	}
	writeJSON(w, http.StatusOK, drainResult{
		Action: "drain", DryRun: body.DryRun, Worker: id, Requested: result.Requested, Others: result.Others,
	})
}

// readCommand reads a JSON object into body, and answers the request itself when
// it cannot: nothing else than application/json is read, which a page of another
// site cannot send without being asked first, and no field that is not known,
// since one that is misspelt would widen what is chosen.
func (h *Handler) readCommand(w http.ResponseWriter, r *http.Request, body any) bool {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		w.Header().Set("Accept", "application/json")
		h.failWith(w, r, http.StatusUnsupportedMediaType, "unsupported_media_type", "Send application/json.")
		return false
	}
	if err := h.mayAct(identity(r)); err != nil {
		h.failBy(w, r, err, 0)
		return false
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
		h.failWith(w, r, http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("The body is larger than %d bytes.", tooLarge.Limit))
		return false
	case errors.Is(err, os.ErrDeadlineExceeded):
		h.failWith(w, r, http.StatusRequestTimeout, "slow_body", "The body did not arrive in time.")
		return false
	case err != nil:
		h.failBy(w, r, unreadable(err), 0)
		return false
	}
	return true
}

// unreadable names the field that a decoder stopped at.
func unreadable(err error) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return refused(cmp.Or(kind.Field, "body"), "must not be a JSON %s", kind.Value)
	}
	const unknown = "json: unknown field "
	if name, found := strings.CutPrefix(err.Error(), unknown); found {
		return refused(strings.Trim(name, `"`), "there is no such field")
	}
	if errors.Is(err, io.EOF) {
		return refused("body", "is empty; send a JSON object")
	}
	return refused("body", "is not one JSON object: %s", strings.TrimPrefix(err.Error(), "json: "))
}

func (c messagesCommand) selection(now time.Time) (admin.Selection, error) {
	s := admin.Selection{State: admin.State(c.State), Sequences: c.Sequences, All: c.All}
	if len(c.Sequences) > admin.MaxLimit {
		return s, refused(admin.FieldSequence, "at most %d can be named at once, got %d", admin.MaxLimit, len(c.Sequences))
	}
	if c.Filter == nil {
		return s, nil
	}
	var err error
	s.Filter, err = c.Filter.filter(now)
	if err == nil && s.Filter.Empty() {
		err = refused("filter", "is empty; to choose every message say all")
	}
	return s, err
}

func (c filterCommand) filter(now time.Time) (admin.Filter, error) {
	var f admin.Filter
	var err error
	if c.Partitions != nil && len(c.Partitions) == 0 {
		return f, refused("partitions", "must not be empty")
	}
	if f.Partitions, err = partitionIDs(c.Partitions); err != nil {
		return f, err
	}
	for _, one := range []struct {
		name string
		from *string
		into *string
	}{
		{"stream", c.Stream, &f.Stream},
		{"topic", c.Topic, &f.Topic},
		{"type", c.Type, &f.Type},
		{"error_contains", c.ErrorContains, &f.ErrorContains},
	} {
		if one.from == nil {
			continue
		}
		if *one.from == "" {
			return f, refused(one.name, "must not be empty")
		}
		*one.into = *one.from
	}
	if c.ID != nil {
		if f.EventID, err = uuid.Parse(*c.ID); err != nil || f.EventID == uuid.Nil {
			return f, refused("id", "must be an event's UUID")
		}
	}
	for _, one := range []struct {
		name string
		from *string
		into *time.Time
	}{{"since", c.Since, &f.Since}, {"until", c.Until, &f.Until}} {
		if one.from == nil {
			continue
		}
		if *one.into, err = parseMoment(*one.from, now); err != nil {
			return f, refused(one.name, "must be a time as 2026-01-02T03:04:05Z or a duration before now as 10m")
		}
	}
	return f, nil
}

func partitionIDs(numbers []int) ([]partition.ID, error) {
	ids := make([]partition.ID, 0, len(numbers))
	for _, n := range numbers {
		if n < 0 || n >= int(partition.MaxCount) {
			return nil, refused(admin.FieldPartition, "must lie between 0 and %d, got %d", partition.MaxCount-1, n)
		}
		ids = append(ids, partition.ID(n))
	}
	return ids, nil
}
