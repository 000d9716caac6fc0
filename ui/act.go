package ui

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/ui/source"
)

// What people and programs can do. Forms of pages and the API call the same methods, which check the right once more, take the actor from
// the identity and leave one record in the log. The reason and the filter, which may hold data, are in the audit alone.

var (
	errNoOperator   = errors.New("this monitor was started without an operator's rights: it shows no single messages and takes no actions")
	errNotPermitted = errors.New("actions are not allowed here: access is read-only")
)

// lookTimeout bounds a look at messages, actTimeout an action on many of them. What an action did before it ran out stays done; doing it
// again takes the rest. countTimeout ends the count of a dry run, which then says that it is not complete.
const (
	lookTimeout  = 10 * time.Second
	actTimeout   = 5 * time.Minute
	countTimeout = 5 * time.Second
)

// messageAction is one of the ways to end a message's wait.
type messageAction struct {
	name string
	do   func(*ops.Operator, context.Context, ops.Command) (ops.Result, error)
}

var (
	requeueMessages = messageAction{"requeue", (*ops.Operator).Requeue}
	skipMessages    = messageAction{"skip", (*ops.Operator).Skip}
	discardMessages = messageAction{"discard", (*ops.Operator).Discard}
)

// partitionAction stops or starts the delivery of partitions.
type partitionAction struct {
	name string
	do   func(*ops.Operator, context.Context, ops.PauseCommand) (ops.PauseResult, error)
}

var (
	pausePartitions  = partitionAction{"pause", (*ops.Operator).Pause}
	resumePartitions = partitionAction{"resume", (*ops.Operator).Resume}
)

// mayAct tells why who cannot act here, nil if they can.
func (h *Handler) mayAct(who Identity) error {
	switch {
	case h.options.Operator == nil:
		return errNoOperator
	case h.options.ReadOnly, who.Access != AccessOperate:
		return errNotPermitted
	}
	return nil
}

// mayReadPayload tells whether who sees payloads and metadata.
func (h *Handler) mayReadPayload(who Identity) bool {
	return h.options.ShowPayload && h.options.Operator != nil && who.Access == AccessOperate
}

// actOnMessages requeues, skips or discards; the command's actor is who.
func (h *Handler) actOnMessages(ctx context.Context, who Identity, action messageAction, c ops.Command) (ops.Result, error) {
	if err := h.mayAct(who); err != nil {
		return ops.Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	c.Actor = who.Name
	r, err := action.do(h.options.Operator, ctx, c)
	h.logAction(ctx, who, "messages."+action.name, c.DryRun, r.Count, err)
	return r, err
}

// actOnPartitions pauses or resumes; the command's actor is who.
func (h *Handler) actOnPartitions(ctx context.Context, who Identity, action partitionAction, c ops.PauseCommand) (ops.PauseResult, error) {
	if err := h.mayAct(who); err != nil {
		return ops.PauseResult{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	c.Actor = who.Name
	r, err := action.do(h.options.Operator, ctx, c)
	h.logAction(ctx, who, "partitions."+action.name, c.DryRun, int64(len(r.Changed)), err)
	return r, err
}

// workerAction asks a worker to give its partitions back, or takes that back.
type workerAction struct {
	name string
	do   func(*ops.Operator, context.Context, ops.DrainCommand) (ops.DrainResult, error)
}

var (
	drainWorker   = workerAction{"drain", (*ops.Operator).Drain}
	undrainWorker = workerAction{"undrain", (*ops.Operator).Undrain}
)

// actOnWorker drains or undrains; the command's actor is who.
func (h *Handler) actOnWorker(ctx context.Context, who Identity, action workerAction, c ops.DrainCommand) (ops.DrainResult, error) {
	if err := h.mayAct(who); err != nil {
		return ops.DrainResult{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	c.Actor = who.Name
	r, err := action.do(h.options.Operator, ctx, c)
	count := int64(0)
	if r.Requested {
		count = 1
	}
	h.logAction(ctx, who, "workers."+action.name, c.DryRun, count, err)
	return r, err
}

// logAction leaves one record an action, also of one that was refused or failed.
func (h *Handler) logAction(ctx context.Context, who Identity, action string, dry bool, count int64, err error) {
	attributes := []slog.Attr{
		slog.String(logActor, who.Name), slog.String(logAction, action), slog.Bool(logDryRun, dry), slog.Int64(logCount, count),
	}
	if err == nil {
		h.options.Logger.LogAttrs(ctx, slog.LevelInfo, "monitor action", attributes...)
		return
	}
	level := slog.LevelWarn
	cause := slog.String(logError, source.Scrub(err.Error()))
	var input *ops.InputError
	if errors.As(err, &input) {
		// The problem may quote what was sent.
		level, cause = slog.LevelInfo, slog.String(logError, "refused: "+input.Field)
	}
	h.options.Logger.LogAttrs(ctx, level, "monitor action failed", append(attributes, cause)...)
}

// complaint is what a client is told about an error.
type complaint struct {
	status int
	problemDetail
}

// complain says in general words what went wrong; the cause of a failure of the database stays in the log.
func (h *Handler) complain(ctx context.Context, err error) complaint {
	var input *ops.InputError
	var state interface{ SQLState() string }
	about := func(status int, code, message string) complaint {
		return complaint{status, problemDetail{Code: code, Message: message}}
	}
	switch {
	case errors.Is(err, errNoOperator):
		return about(http.StatusNotImplemented, "operator_not_configured", "There are no messages and actions: "+errNoOperator.Error()+".")
	case errors.Is(err, errNotPermitted):
		return about(http.StatusForbidden, "read_only", "Actions are not allowed here: access is read-only.")
	case errors.As(err, &input):
		c := about(http.StatusBadRequest, "invalid", fmt.Sprintf("%s: %s", input.Field, input.Problem))
		c.Field, c.Sequences = input.Field, input.Sequences
		switch {
		case errors.Is(err, ops.ErrNotFound):
			c.status, c.Code = http.StatusNotFound, "not_found"
		case errors.Is(err, ops.ErrWrongState):
			c.status, c.Code = http.StatusConflict, "wrong_state"
		case errors.Is(err, ops.ErrCountChanged):
			c.status, c.Code = http.StatusConflict, "count_changed"
		}
		return c
	case errors.Is(err, ops.ErrBusy):
		return about(http.StatusServiceUnavailable, "busy", "Somebody else holds a partition's row. Nothing of this step was changed; try again.")
	case errors.Is(err, context.DeadlineExceeded):
		return about(http.StatusGatewayTimeout, "timeout", "The database did not answer in time. What was changed stays; doing it again takes the rest.")
	}
	h.options.Logger.WarnContext(ctx, "monitor cannot ask the database", logError, source.Scrub(err.Error()))
	const insufficientPrivilege = "42501"
	if errors.As(err, &state) && state.SQLState() == insufficientPrivilege {
		return about(http.StatusServiceUnavailable, "rights_missing",
			"The database refuses this to the monitor's role. The log of this process tells what is missing.")
	}
	return about(http.StatusServiceUnavailable, "database_failed", "The database did not carry this out. The log of this process tells why.")
}

// failBy answers an API request with an error, and how much was done before it.
func (h *Handler) failBy(w http.ResponseWriter, r *http.Request, err error, done int64) {
	c := h.complain(r.Context(), err)
	c.Count = done
	if c.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, c.status, problem{Error: c.problemDetail})
}
