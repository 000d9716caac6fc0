package act

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/ops/replay"
	"github.com/postrider/postrider/ui/source"
)

// Complaint is the form of an error that clients see.
type Complaint struct {
	Status int `json:"-"`
	// Code is stable and meant for programs, Message for people.
	Code    string `json:"code"`
	Message string `json:"message"`
	// Field names the refused input.
	Field string `json:"field,omitempty"`
	// Sequences are the refused messages.
	Sequences []int64 `json:"sequences,omitempty"`
	// Count is the number of messages that a command changed before it failed.
	Count int64 `json:"count,omitempty"`
}

// Complain describes an error in general words; the cause of a failure of the database stays in the log.
func (d *Desk) Complain(ctx context.Context, err error) Complaint {
	c, known := complaint(err)
	if !known {
		d.Logger.WarnContext(ctx, "monitor cannot ask the database", logError, source.Scrub(err.Error()))
	}
	return c
}

// complaint also reports whether c says all: the error needs no log.
func complaint(err error) (c Complaint, known bool) {
	if c, resizing := resizeComplaint(err); resizing {
		return c, true
	}
	var input *ops.InputError
	var state interface{ SQLState() string }
	about := func(status int, code, message string) Complaint {
		return Complaint{Status: status, Code: code, Message: message}
	}
	switch {
	case errors.Is(err, ErrNoOperator):
		return about(http.StatusNotImplemented, "operator_not_configured", "There are no messages and actions: "+source.Scrub(err.Error())+"."), true
	case errors.Is(err, errNotPermitted):
		return about(http.StatusForbidden, "read_only", "Actions are not allowed here: access is read-only."), true
	case errors.Is(err, errNoReplays), errors.Is(err, errNoReplay):
		return about(http.StatusNotImplemented, "operator_not_configured",
			"There is nothing to replay with: "+err.Error()+"; its log names them. `postrider replay` takes an operator's rights of its own."), true
	case errors.Is(err, replay.ErrNotFound):
		return about(http.StatusNotFound, "not_found", "There is no such replay."), true
	case errors.Is(err, replay.ErrEnded):
		return about(http.StatusConflict, "wrong_state", "The replay has ended already."), true
	case errors.As(err, &input):
		c := about(http.StatusBadRequest, "invalid", fmt.Sprintf("%s: %s", input.Field, input.Problem))
		c.Field, c.Sequences = input.Field, input.Sequences
		switch {
		case errors.Is(err, ops.ErrNotFound):
			c.Status, c.Code = http.StatusNotFound, "not_found"
		case errors.Is(err, ops.ErrWrongState):
			c.Status, c.Code = http.StatusConflict, "wrong_state"
		case errors.Is(err, ops.ErrCountChanged):
			c.Status, c.Code = http.StatusConflict, "count_changed"
		}
		return c, true
	case errors.Is(err, ops.ErrBusy):
		return about(http.StatusServiceUnavailable, "busy", "Somebody else holds a partition's row. Nothing of this step was changed; try again."), true
	case errors.Is(err, context.DeadlineExceeded):
		return about(http.StatusGatewayTimeout, "timeout", "The database did not answer in time. What was changed stays; doing it again takes the rest."), true
	}
	const insufficientPrivilege = "42501"
	if errors.As(err, &state) && state.SQLState() == insufficientPrivilege {
		return about(http.StatusServiceUnavailable, "rights_missing",
			"The database refuses this to the monitor's role. The log of this process tells what is missing."), false
	}
	return about(http.StatusServiceUnavailable, "database_failed", "The database did not carry this out. The log of this process tells why."), false
}
