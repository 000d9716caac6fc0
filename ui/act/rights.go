package act

import (
	"context"
	"log/slog"
	"strings"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/ui/source"
)

// Rights gives a desk those of the wanted Means for which the role has the rights.
type Rights struct {
	Wanted   Means
	Operator *ops.Operator

	told string
}

// Renew checks the rights again, and logs changes. While the database is away the means stay.
func (r *Rights) Renew(ctx context.Context, d *Desk) error {
	m, lacks, err := r.look(ctx, d.ShowPayload)
	switch {
	case err == nil:
	case ops.Unfit(err):
		lacks = []string{source.Scrub(err.Error())}
	default:
		return err
	}
	if m.Operator == nil && len(lacks) > 0 {
		m = Means{ReadOnly: r.Wanted.ReadOnly, Lacking: lacks[0]}
	}
	d.Use(m)
	level, text := slog.LevelInfo, strings.Join(lacks, "; ")
	switch {
	case text == r.told:
		return nil
	case text == "":
		d.Logger.InfoContext(ctx, "the monitor lacks nothing any more")
	case m.Operator == nil, m.ReadOnly, d.ShowPayload:
		level = slog.LevelWarn
		fallthrough
	default:
		d.Logger.Log(ctx, level, "the monitor's database role lacks rights, or its events relation columns", "missing", text)
	}
	r.told = text
	return nil
}

// look returns the means within the rights of the operator's role, and names the missing rights.
func (r *Rights) look(ctx context.Context, payloads bool) (m Means, lacks []string, err error) {
	lacking := func(effect string, rights []string) bool {
		if len(rights) > 0 {
			lacks = append(lacks, "the monitor "+effect+" without "+strings.Join(rights, ", "))
		}
		return len(rights) > 0
	}
	operator, err := r.Operator.Renew(ctx)
	if err != nil {
		return m, nil, err
	}
	if r.Wanted.Replays != nil {
		if r.Wanted.Replays, err = r.Wanted.Replays.Renew(ctx); err != nil {
			return m, nil, err
		}
	}
	r.Operator = operator
	missing, err := operator.MissingRights(ctx)
	if err != nil || lacking("shows no messages and takes no actions", missing.Look) {
		return m, lacks, err
	}
	m = r.Wanted
	m.Operator, m.ReadOnly = operator, lacking("takes no actions", missing.Act) || m.ReadOnly
	lacking("shows no audit", missing.Audit)
	if payloads {
		lacking("shows no payloads (--http-show-payload)", missing.Payload)
	}
	if m.Resizes != nil && lacking("does not change the number of partitions", missing.Resize) {
		m.Resizes = nil
	}
	switch {
	case m.Replays == nil:
	case lacking("shows no replays", missing.Replays):
		m.Replays = nil
	case lacking("makes no replays", missing.Replay):
		m.Replayable = false
	}
	return m, lacks, nil
}
