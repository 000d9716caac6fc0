package act

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/ops/resize"
	"github.com/postrider/postrider/lease"
)

var errNoResizes = errors.New("this monitor has no worker beside it, or its database role lacks the rights of the tables' owner")

// MayResize returns the runner, and why who cannot change the number of partitions by it; nil: they can.
func (d *Desk) MayResize(who Identity) (*resize.Runner, error) {
	m, err := d.MayAct(who)
	if err == nil && m.Resizes == nil {
		err = errNoResizes
	}
	return m.Resizes, err
}

// Fields of the resize form: the wanted number of partitions, and the number at confirmation.
const (
	ParamPartitions = "partitions"
	paramExpected   = resize.FieldExpected
)

// ResizeWanted reads the resize form.
func ResizeWanted(q url.Values) (resize.Wanted, error) {
	to, err := strconv.Atoi(strings.TrimSpace(q.Get(ParamPartitions)))
	if err != nil {
		return resize.Wanted{}, Refused(resize.FieldCount, "must be a whole number, got %q", q.Get(ParamPartitions))
	}
	from, err := Number(q, paramExpected)
	return resize.Wanted{To: to, From: int(from), Reason: q.Get("reason")}, err
}

// Resizing returns the number of partitions, and the progress of a resize.
func (d *Desk) Resizing(ctx context.Context) (lease.Census, *resize.Asked, error) {
	resizes := d.Means().Resizes
	if resizes == nil {
		return lease.Census{}, nil, errNoResizes
	}
	ctx, cancel := context.WithTimeout(ctx, LookTimeout)
	defer cancel()
	return resizes.Look(ctx)
}

// PlanResize returns the result that a resize would have; the actor is who.
func (d *Desk) PlanResize(ctx context.Context, who Identity, o resize.Wanted) (resize.Resized, error) {
	resizes, err := d.MayResize(who)
	if err != nil {
		return resize.Resized{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	done, err := resizes.Plan(ctx, o)
	d.logAction(ctx, who, "partitions.resize", true, int64(o.To), err)
	return done, err
}

// Resize begins a resize, which outlives the context, and returns once the workers were asked for their partitions, or an error if it ended
// before; the actor is who. Wait returns the result.
func (d *Desk) Resize(ctx context.Context, who Identity, o resize.Wanted) (wait func(context.Context) (resize.Resized, error), err error) {
	resizes, err := d.MayResize(who)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	o.Actor = who.Name
	wait, err = resizes.Start(ctx, o)
	d.logAction(ctx, who, "partitions.resize", false, int64(o.To), err)
	return wait, err
}

// WhyNotResized describes the error of a failed resize, which the log has already.
func WhyNotResized(err error) string {
	c, _ := complaint(err)
	return c.Message
}

// resizeComplaint describes a refused resize, with its cure.
func resizeComplaint(err error) (c Complaint, resizing bool) {
	var input *ops.InputError
	refused := Complaint{Status: http.StatusConflict, Code: "wrong_state"}
	switch {
	case errors.Is(err, errNoResizes):
		return Complaint{
			Status: http.StatusNotImplemented, Code: "operator_not_configured",
			Message: "The number of partitions cannot be changed from here: " + errNoResizes.Error() + ". `postrider partitions resize` takes such rights of its own.",
		}, true
	case errors.Is(err, resize.ErrCountChanged) && errors.As(err, &input):
		return Complaint{Status: http.StatusConflict, Code: "count_changed", Message: input.Problem + ".", Field: input.Field}, true
	case errors.Is(err, lease.ErrFrozen):
		refused.Message = "Somebody else is changing the partitions now. Nothing was done; try again when that has ended."
	case errors.Is(err, resize.ErrPaused), errors.Is(err, resize.ErrForeignPartitions), errors.Is(err, resize.ErrProducers):
		refused.Message = sentence(err)
	case errors.Is(err, resize.ErrNotReturned):
		refused.Message = "Not all workers gave back their partitions in time. Nothing was changed, and they go on. Drain or end the worker that keeps its partitions, or give it longer: postrider partitions resize --timeout."
	case errors.Is(err, resize.ErrStopped):
		refused.Message = "This process was stopped amid it. Where the number is still the old one, nothing was changed: ask again."
	case errors.Is(err, resize.ErrStream):
		refused.Status, refused.Code = http.StatusServiceUnavailable, "stream_failed"
		refused.Message = "NATS did not let the partitions be taken. Nothing was changed, and the workers go on; try again when it answers. The log of this process tells why."
	default:
		return c, false
	}
	return refused, true
}

// sentence makes a sentence of a resize's error.
func sentence(err error) string {
	text := strings.TrimPrefix(err.Error(), "resize: ")
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
