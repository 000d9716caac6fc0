package act

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/ops/replay"
	"github.com/postrider/postrider/delivery/ops/resize"
	"github.com/postrider/postrider/ui/source"
)

// ErrNoOperator is returned where an act needs an operator and there is none.
var (
	ErrNoOperator   = errors.New("this monitor has no operator's rights: it shows no single messages and takes no actions")
	errNotPermitted = errors.New("actions are not allowed here: access is read-only")
)

// Keys of log records.
const (
	logError  = "error"
	logActor  = "actor"
	logAction = "action"
	logCount  = "count"
	logDryRun = "dry_run"
)

// Desk serves pages and API: it reads single messages and acts for them.
type Desk struct {
	Cache     *source.Cache
	Readiness *source.Readiness
	// ShowPayload lets operators see payloads and metadata.
	ShowPayload bool
	// Environment, if any, and Version are shown.
	Environment, Version string
	Logger               *slog.Logger

	means atomic.Pointer[Means]
}

// Means are a desk's tools. They change as a whole, with the rights of the database's role and the events relation.
type Means struct {
	// Operator reads single messages and acts; nil: there is none, for the reason in Lacking where one was given.
	Operator *ops.Operator
	Lacking  string
	// Replays lists replays and makes them, where the role has the rights (Replayable); nil: none.
	Replays    *replay.Store
	Replayable bool
	// Resizes changes the number of partitions; nil: the monitor cannot.
	Resizes *resize.Runner
	// ReadOnly caps everyone's access.
	ReadOnly bool
}

// Use replaces the desk's means; it begins with none.
func (d *Desk) Use(m Means) { d.means.Store(&m) }

// Means returns the present means.
func (d *Desk) Means() Means { return *cmp.Or(d.means.Load(), &Means{}) }

// MayLook returns the means, or ErrNoOperator with the lacking right.
func (d *Desk) MayLook() (m Means, err error) {
	if m = d.Means(); m.Operator == nil {
		err = ErrNoOperator
		if m.Lacking != "" {
			err = fmt.Errorf("%w: %s", err, m.Lacking)
		}
	}
	return m, err
}

// Observe returns the database's time by the last snapshot, and that snapshot; nil without one.
func (d *Desk) Observe(ctx context.Context) (time.Time, *source.Observation) {
	seen, err := d.Cache.Observe(ctx)
	if err != nil {
		return time.Now(), nil
	}
	return seen.At.Add(seen.Age), &seen
}

// Now returns the time by the database's clock, which dates its rows.
func (d *Desk) Now(ctx context.Context) time.Time {
	now, _ := d.Observe(ctx)
	return now
}

// MessageVerb is a way to end a message's wait.
type MessageVerb struct {
	Name string
	do   func(*ops.Operator, context.Context, ops.Command) (ops.Changed, error)
}

// Requeue, Skip and Discard end a message's wait.
var (
	Requeue = MessageVerb{"requeue", (*ops.Operator).Requeue}
	Skip    = MessageVerb{"skip", (*ops.Operator).Skip}
	Discard = MessageVerb{"discard", (*ops.Operator).Discard}
)

// PartitionVerb stops or starts the delivery of partitions.
type PartitionVerb struct {
	Name string
	do   func(*ops.Operator, context.Context, ops.PauseCommand) (ops.PauseResult, error)
}

// Pause and Resume stop and start partitions.
var (
	Pause  = PartitionVerb{"pause", (*ops.Operator).Pause}
	Resume = PartitionVerb{"resume", (*ops.Operator).Resume}
)

// MayAct returns the means, and why who cannot act by them; nil: they can.
func (d *Desk) MayAct(who Identity) (Means, error) {
	m, err := d.MayLook()
	if err == nil && (m.ReadOnly || who.Access != AccessOperate) {
		err = errNotPermitted
	}
	return m, err
}

// MayReadPayload reports whether who sees payloads and metadata.
func (d *Desk) MayReadPayload(who Identity) bool {
	return d.ShowPayload && d.Means().Operator != nil && who.Access == AccessOperate
}

// OnMessages requeues, skips or discards; the command's actor is who.
func (d *Desk) OnMessages(ctx context.Context, who Identity, action MessageVerb, c ops.Command) (ops.Changed, error) {
	m, err := d.MayAct(who)
	if err != nil {
		return ops.Changed{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	c.Actor = who.Name
	r, err := action.do(m.Operator, ctx, c)
	d.logAction(ctx, who, "messages."+action.Name, c.DryRun, r.Count, err)
	return r, err
}

// OnPartitions pauses or resumes; the command's actor is who.
func (d *Desk) OnPartitions(ctx context.Context, who Identity, action PartitionVerb, c ops.PauseCommand) (ops.PauseResult, error) {
	m, err := d.MayAct(who)
	if err != nil {
		return ops.PauseResult{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, LookTimeout)
	defer cancel()
	c.Actor = who.Name
	r, err := action.do(m.Operator, ctx, c)
	d.logAction(ctx, who, "partitions."+action.Name, c.DryRun, int64(len(r.Changed)), err)
	return r, err
}

// WorkerAction asks a worker to release its partitions, or withdraws that.
type WorkerAction struct {
	Name string
	do   func(*ops.Operator, context.Context, ops.DrainCommand) (ops.DrainResult, error)
}

// Drain asks, Undrain withdraws.
var (
	Drain   = WorkerAction{"drain", (*ops.Operator).Drain}
	Undrain = WorkerAction{"undrain", (*ops.Operator).Undrain}
)

// OnWorker drains or undrains; the command's actor is who.
func (d *Desk) OnWorker(ctx context.Context, who Identity, action WorkerAction, c ops.DrainCommand) (ops.DrainResult, error) {
	m, err := d.MayAct(who)
	if err != nil {
		return ops.DrainResult{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, LookTimeout)
	defer cancel()
	c.Actor = who.Name
	r, err := action.do(m.Operator, ctx, c)
	count := int64(0)
	if r.Requested {
		count = 1
	}
	d.logAction(ctx, who, "workers."+action.Name, c.DryRun, count, err)
	return r, err
}

// logAction writes one record an action, also of a refused or failed one.
func (d *Desk) logAction(ctx context.Context, who Identity, action string, dry bool, count int64, err error) {
	attributes := []slog.Attr{slog.String(logActor, who.Name), slog.String(logAction, action), slog.Bool(logDryRun, dry), slog.Int64(logCount, count)}
	if err == nil {
		d.Logger.LogAttrs(ctx, slog.LevelInfo, "monitor action", attributes...)
		return
	}
	level := slog.LevelWarn
	cause := slog.String(logError, source.Scrub(err.Error()))
	if input, ok := errors.AsType[*ops.InputError](err); ok {
		// The problem may quote the request.
		level, cause = slog.LevelInfo, slog.String(logError, "refused: "+input.Field)
	}
	d.Logger.LogAttrs(ctx, level, "monitor action failed", append(attributes, cause)...)
}
