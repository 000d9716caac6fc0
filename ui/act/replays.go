package act

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/ops/replay"
)

var (
	errNoReplays = errors.New("this monitor's database role may not read replays, or the program around it gave none")
	errNoReplay  = errors.New("this monitor's database role lacks rights")
)

// DefaultRate is the default number of events a second of a replay.
const DefaultRate = 1000

// MayReplay returns the store, and why who cannot have events replayed by it; nil: they can.
func (d *Desk) MayReplay(who Identity) (*replay.Store, error) {
	m, err := d.MayAct(who)
	switch {
	case err != nil:
	case m.Replays == nil:
		err = errNoReplays
	case !m.Replayable:
		err = errNoReplay
	}
	return m.Replays, err
}

// ListReplays returns the newest replays with numbers below before (0: all).
func (d *Desk) ListReplays(ctx context.Context, before int64, limit int) ([]replay.Job, error) {
	replays := d.Means().Replays
	if replays == nil {
		return nil, errNoReplays
	}
	ctx, cancel := context.WithTimeout(ctx, LookTimeout)
	defer cancel()
	return replays.List(ctx, before, limit)
}

// ShowReplay returns one replay.
func (d *Desk) ShowReplay(ctx context.Context, id int64) (replay.Job, error) {
	replays := d.Means().Replays
	if replays == nil {
		return replay.Job{}, errNoReplays
	}
	ctx, cancel := context.WithTimeout(ctx, LookTimeout)
	defer cancel()
	return replays.Get(ctx, id)
}

// CountReplay counts the events of a replay; the spec's actor is who.
func (d *Desk) CountReplay(ctx context.Context, who Identity, spec replay.Spec) (replay.Estimate, error) {
	replays, err := d.MayReplay(who)
	if err != nil {
		return replay.Estimate{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, LookTimeout)
	defer cancel()
	spec.Actor = who.Name
	e, err := replays.Count(ctx, spec, nil)
	err = inWords(err)
	if errors.Is(err, context.DeadlineExceeded) {
		err = Refused("selection", "could not be counted within %s; select less, or use `postrider replay`", LookTimeout)
	}
	d.logAction(ctx, who, "replays.start", true, e.Selected, err)
	return e, err
}

// Replay makes a replay, which a process with a monitor runs; the spec's actor is who. A count of events other than expected (nil: any)
// cancels it.
func (d *Desk) Replay(ctx context.Context, who Identity, spec replay.Spec, expected *int64) (replay.Job, error) {
	replays, err := d.MayReplay(who)
	if err != nil {
		return replay.Job{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	spec.Actor = who.Name
	spec.Rate = cmp.Or(spec.Rate, DefaultRate)
	j, err := replays.Create(ctx, spec, expected, nil)
	err = inWords(err)
	d.logAction(ctx, who, "replays.start", false, *cmp.Or(expected, new(int64)), err)
	return j, err
}

// CancelReplay ends a replay for good.
func (d *Desk) CancelReplay(ctx context.Context, who Identity, id int64, reason string) (replay.Job, error) {
	replays, err := d.MayReplay(who)
	if err != nil {
		return replay.Job{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, LookTimeout)
	defer cancel()
	j, err := replays.Cancel(ctx, id, who.Name, reason)
	d.logAction(ctx, who, "replays.cancel", false, j.Replayed, err)
	return j, err
}

// inWords replaces a refused input's name by its parameter's.
func inWords(err error) error {
	if input, ok := errors.AsType[*ops.InputError](err); ok {
		renamed := *input
		renamed.Field = strings.ReplaceAll(input.Field, "-", "_")
		return &renamed
	}
	return err
}

// ReplayNumber reads the number of a replay from a path or form.
func ReplayNumber(text string) (int64, error) {
	id, err := Number(url.Values{"replay": {text}}, "replay")
	if err == nil && id == 0 {
		err = Refused("replay", "must be the number of a replay")
	}
	return id, err
}

// ReplaySpec reads a replay's selection: parameters as the flags of `postrider replay`, with _ for -.
func ReplaySpec(values url.Values, now time.Time) (replay.Spec, error) {
	spec := replay.Spec{Kind: replay.JobKind(values.Get("kind")), Reason: values.Get("reason")}
	s := &spec.Selection
	s.Stream, s.Type, s.Topic, s.Tenant = values.Get("stream"), values.Get("type"), values.Get("topic"), values.Get("tenant")
	s.All = values.Get("all") != ""
	for name, into := range map[string]*int64{"from_sequence": &s.From, "to_sequence": &s.To} {
		var err error
		if *into, err = Number(values, name); err != nil {
			return spec, err
		}
	}
	for name, into := range map[string]**time.Time{"since": &s.Since, "until": &s.Until} {
		at, err := Moment(values, name, now)
		if err != nil {
			return spec, err
		}
		if !at.IsZero() {
			*into = &at
		}
	}
	if text := values.Get("rate"); text != "" {
		if _, err := fmt.Sscan(text, &spec.Rate); err != nil || spec.Rate == 0 {
			return spec, Refused("rate", "must be a number of events a second of at least 0.1")
		}
	}
	return spec.WithDefaults(), nil
}
