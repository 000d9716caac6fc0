package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/dustin/go-humanize"
	"github.com/google/uuid"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/ops/gaps"
	"github.com/postrider/postrider/internal/pg"
)

type gapsCmd struct {
	Detect gapsDetectCmd `cmd:"" help:"Compare events, outbox, history and stream; exit status 1 if they differ."`
	Repair gapsRepairCmd `cmd:"" help:"Queue events that were never enqueued."`
}

type gapsFlags struct {
	databaseFlags
	natsFlags
	JetStream    string   `name:"jetstream" help:"JetStream stream that holds the events; without it what is stored with the outbox, or EVENTS." placeholder:"NAME" env:"POSTRIDER_STREAM"`
	Subject      string   `help:"Template of the subjects; without it what is stored with the outbox, or events.{topic}.{type}." placeholder:"TEMPLATE"`
	JSON         bool     `help:"Print JSON." name:"json"`
	Partition    []int    `help:"Only events of that partition; repeatable." placeholder:"N" env:"-"`
	Stream       *string  `name:"stream" help:"Only events of that stream." placeholder:"ID" env:"-"`
	FromSequence *int64   `help:"Only events from that sequence on." placeholder:"N" env:"-"`
	ToSequence   *int64   `help:"Only events up to that sequence." placeholder:"N" env:"-"`
	Kind         []string `help:"Only that kind; repeatable." placeholder:"KIND" env:"-"`
	Limit        int      `help:"Most gaps of one kind that are listed; all are counted." default:"1000" env:"-"`
}

func (f *gapsFlags) options() (gaps.Options, error) {
	o := gaps.Options{Limit: f.Limit}
	var err error
	if o.Partitions, err = partitionIDs("--partition", f.Partition); err != nil {
		return o, err
	}
	if err := given("--stream", f.Stream, &o.Stream); err != nil {
		return o, err
	}
	for _, one := range []struct {
		flag string
		from *int64
		into *int64
	}{{"--from-sequence", f.FromSequence, &o.From}, {"--to-sequence", f.ToSequence, &o.To}} {
		if one.from == nil {
			continue
		}
		if *one.from < 1 {
			return o, fmt.Errorf("%w: %s must be at least 1, got %d", errRefused, one.flag, *one.from)
		}
		*one.into = *one.from
	}
	if f.Limit < 1 {
		return o, fmt.Errorf("%w: --limit must be at least 1, got %d", errRefused, f.Limit)
	}
	for _, name := range f.Kind {
		k, err := gaps.ParseKind(name)
		if err != nil {
			return o, flagRefused(err)
		}
		o.Kinds = append(o.Kinds, k)
	}
	return o, nil
}

type looking struct {
	store  *gaps.Store
	stream gaps.Stream // nil: not read
	done   func()
}

func (f *gapsFlags) open(s *session, broker bool) (l looking, err error) {
	if err := f.validate(); err != nil {
		return l, err
	}
	pool, info, err := f.outbox(s.ctx, "postrider gaps", 2)
	if err != nil {
		return l, err
	}
	l.done = pool.Close
	defer func() {
		if err != nil {
			l.done()
		}
	}()
	of := streamFlags{streamFlag: streamFlag{f.JetStream}, Subject: f.Subject}
	of.complete(info)
	subject, err := wire.ParseSubject(of.Subject)
	if err != nil {
		return l, fmt.Errorf("%w: %w", errRefused, err)
	}
	if l.store, err = gaps.New(s.ctx, pool, f.Schema, info.events); err != nil || !broker {
		return l, err
	}
	nc, apiPrefix, err := f.connect("postrider gaps", s.logger())
	if err != nil {
		return l, fmt.Errorf("%w; --no-broker compares the tables alone", err)
	}
	l.done = func() { nc.Close(); pool.Close() }
	if _, err = streams.EnsureStream(s.ctx, nc, streams.StreamConfig{Name: of.Stream, APIPrefix: apiPrefix, Subject: subject, Control: info.control(), Logger: s.logger()}); err != nil {
		return l, err
	}
	l.stream, err = streams.NewStreamReader(nc, apiPrefix, of.Stream, subject)
	return l, err
}

type gapsDetectCmd struct {
	gapsFlags
	NoBroker bool `help:"Leave the stream out: compare the tables alone." env:"-"`
}

func (c *gapsDetectCmd) Help() string {
	return `Kinds: never-enqueued, unrecorded, pointer-without-event, not-in-stream, unknown-event, missing-version.
It changes nothing and may run beside producers and workers. Exit status 1: there are gaps.

Examples:
  postrider gaps detect
  postrider gaps detect --kind never-enqueued --from-sequence 100000 --json
  postrider gaps detect --stream order-17 --no-broker`
}

func (c *gapsDetectCmd) Run(s *session) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	l, err := c.open(s, !c.NoBroker)
	if err != nil {
		return err
	}
	defer l.done()
	p := newProgress(s.stderr)
	o.Progress = p.looking
	report, err := l.store.Detect(s.ctx, o, l.stream)
	p.end()
	if err != nil {
		return flagRefused(err)
	}
	if err := c.print(s.stdout, report, report.Gaps, nil); err != nil {
		return err
	}
	if report.Total() > 0 {
		return errSilent
	}
	return nil
}

type gapsRepairCmd struct {
	gapsFlags
	actorFlags
	DryRun bool `help:"Say what would be queued, and do nothing." env:"-"`
	Yes    bool `help:"Confirm that more than one event is meant." env:"-"`
}

func (c *gapsRepairCmd) Help() string {
	return `Queues events that were never enqueued: those of which there is no pointer, no history and no message. With
--kind not-in-stream it publishes again, under a higher generation, what the stream does not hold any more;
name it only if nobody removed these messages on purpose. Other kinds are never repaired.

Examples:
  postrider gaps repair --dry-run
  postrider gaps repair --yes --reason 'pointers were deleted by hand, ticket 12'
  postrider gaps repair --kind not-in-stream --stream order-17 --yes --reason 'purged by mistake'`
}

type repairedBody struct {
	Queued int64 `json:"queued"`
	Gone   int64 `json:"gone"`
	Left   int64 `json:"left"`
	DryRun bool  `json:"dry_run"`
}

func (c *gapsRepairCmd) Run(s *session) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	if !c.DryRun && c.Reason == "" {
		return fmt.Errorf("%w: --reason is required; it is written to the audit", errRefused)
	}
	l, err := c.open(s, true)
	if err != nil {
		return err
	}
	defer l.done()
	p := newProgress(s.stderr)
	o.Progress, o.Limit = p.looking, 0
	done, err := l.store.Repair(s.ctx, gaps.Repair{
		Options: o, Actor: c.actor(), Reason: c.Reason, DryRun: c.DryRun,
		Confirm: func(found []gaps.Gap) error {
			if len(found) > 1 && !c.Yes {
				return fmt.Errorf("%w: this would queue %s; say --yes if that is meant", errRefused, counted(len(found), "event"))
			}
			return nil
		},
	}, l.stream)
	p.end()
	if err != nil {
		if len(done.Queued) > 0 {
			err = fmt.Errorf("after %s were queued: %w", counted(len(done.Queued), "event"), err)
		}
		return flagRefused(err)
	}
	shown := done.Queued[:min(len(done.Queued), c.Limit)]
	return c.print(s.stdout, done.Report, shown, &repairedBody{Queued: int64(len(done.Queued)), Gone: done.Gone, Left: done.Left, DryRun: c.DryRun})
}

func (p *replayProgress) looking(what string, at, end int64) {
	p.say(fmt.Sprintf("reading %s: %s of %s", what, humanize.Comma(at), humanize.Comma(max(at, end))))
}

type gapBody struct {
	Kind       gaps.GapKind `json:"kind"`
	Sequence   *int64       `json:"global_sequence"`
	Partition  int          `json:"partition_key"`
	Stream     *string      `json:"stream_id"`
	EventID    *uuid.UUID   `json:"event_id"`
	Version    *int64       `json:"stream_version"`
	Through    *int64       `json:"through_version,omitempty"`
	Position   *uint64      `json:"stream_sequence"`
	Generation int          `json:"generation"`
	Detail     *string      `json:"detail"`
}

type gapsBody struct {
	Total    int64                  `json:"total"`
	Counts   map[gaps.GapKind]int64 `json:"counts"`
	Gaps     []gapBody              `json:"gaps"`
	Events   int64                  `json:"events_compared"`
	Messages int64                  `json:"messages_compared"`
	History  int64                  `json:"deliveries_compared"`
	Notes    []string               `json:"notes"`
	Repaired *repairedBody          `json:"repaired,omitempty"`
}

func (f *gapsFlags) print(out io.Writer, r *gaps.Report, list []gaps.Gap, repaired *repairedBody) error {
	if f.JSON {
		body := gapsBody{
			Total: r.Total(), Counts: r.Counts, Gaps: []gapBody{}, Events: r.Events, Messages: r.Messages, History: r.Delivered,
			Notes: append([]string{}, r.Notes...), Repaired: repaired,
		}
		for _, g := range list {
			body.Gaps = append(body.Gaps, gapBody{
				Kind: g.Kind, Sequence: pg.OrNull(g.Sequence), Partition: int(g.Partition), Stream: pg.OrNull(g.Stream), EventID: pg.OrNull(g.EventID),
				Version: pg.OrNull(g.Version), Through: pg.OrNull(g.Through), Position: pg.OrNull(g.Position), Generation: g.Generation, Detail: pg.OrNull(g.Detail),
			})
		}
		return writeJSON(out, body)
	}
	var rows []table.Row
	for _, g := range list {
		rows = append(rows, table.Row{
			g.Kind, dash(g.Sequence), g.Partition, printable(clip(g.Stream, 40)), versionsOf(g), dash(int64(g.Position)), printable(clip(g.Detail, 80)),
		})
	}
	if len(rows) > 0 {
		writeTable(out, table.Row{"kind", "sequence", "partition", "stream", "version", "stream sequence", "detail"}, rows)
	}
	for _, note := range r.Notes {
		fmt.Fprintln(out, "note: "+note)
	}
	if repaired != nil {
		did := "queued"
		if repaired.DryRun {
			did = "would queue"
		}
		text := fmt.Sprintf("%s %s", did, counted(repaired.Queued, "event"))
		if repaired.Gone > 0 {
			text += fmt.Sprintf("; %d were no gaps any more", repaired.Gone)
		}
		if repaired.Left > 0 {
			text += fmt.Sprintf("; %s are left for the next repair", humanize.Comma(repaired.Left))
		}
		_, err := fmt.Fprintln(out, text)
		return err
	}
	text := fmt.Sprintf("%s among %s, %s and %s", counted(r.Total(), "gap"), counted(r.Events, "event"), counted(r.Messages, "message"),
		humanize.Comma(r.Delivered)+" recorded deliveries")
	for _, k := range gaps.Kinds() {
		if n := r.Counts[k]; n > 0 {
			text += fmt.Sprintf("; %s %d", k, n)
		}
	}
	_, err := fmt.Fprintln(out, text)
	return err
}

func dash(n int64) string {
	if n == 0 {
		return "–"
	}
	return strconv.FormatInt(n, 10)
}

func versionsOf(g gaps.Gap) string {
	if g.Through > g.Version {
		return fmt.Sprintf("%d–%d", g.Version, g.Through)
	}
	return dash(g.Version)
}
