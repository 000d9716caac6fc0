package act

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/postrider/postrider/delivery/ops"
)

// LookTimeout bounds a read of messages, actTimeout an action on many of them. A timeout undoes nothing; a repeated action takes the
// rest.
const (
	LookTimeout = 10 * time.Second
	actTimeout  = 5 * time.Minute
)

// Look runs one read of messages within LookTimeout.
func Look[T any](d *Desk, r *http.Request, do func(context.Context, *ops.Operator) (T, error)) (T, error) {
	m, err := d.MayLook()
	if err != nil {
		var nothing T
		return nothing, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), LookTimeout)
	defer cancel()
	return do(ctx, m.Operator)
}

// ShowMessage finds the message that the path names by sequence or event id.
func (d *Desk) ShowMessage(r *http.Request) (ops.Detail, error) {
	return Look(d, r, func(ctx context.Context, op *ops.Operator) (ops.Detail, error) {
		sequence, err := MessageNamed(ctx, op, r.PathValue("message"))
		if err != nil {
			return ops.Detail{}, err
		}
		return op.Show(ctx, sequence)
	})
}

// MessageNamed returns the sequence of the message that a path names.
func MessageNamed(ctx context.Context, op *ops.Operator, name string) (int64, error) {
	if n, err := strconv.ParseInt(name, 10, 64); err == nil && n > 0 && name[0] != '+' {
		return n, nil
	}
	if ops.CheckEventID(name) != nil {
		return 0, Refused(ops.FieldSequence, "a sequence above 0 or an event's UUID, or enough of its beginning, was expected in the path")
	}
	id, err := op.FindEvent(ctx, name)
	if err != nil {
		return 0, err
	}
	return op.Find(ctx, id)
}

// Prolong gives an answer the time of an action: the server's timeout is for reads. Some servers do not allow it.
func Prolong(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(actTimeout + LookTimeout))
}
