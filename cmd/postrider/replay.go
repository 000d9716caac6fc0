package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/ops/replay"
	"github.com/postrider/postrider/internal/pg"
)

type replayCmd struct {
	Start  replayStartCmd  `cmd:"" default:"withargs" help:"Deliver events again: a selection, the last event of each stream, or what failed."`
	Resume replayResumeCmd `cmd:"" help:"Go on with a replay that was planned, interrupted or killed."`
	List   replayListCmd   `cmd:"" help:"List replays and how far they are."`
	Cancel replayCancelCmd `cmd:"" help:"End a replay for good."`
}

type replayFlags struct {
	databaseFlags
	JSON bool `help:"Print JSON." name:"json"`

	info outboxInfo // known once the database is open
}

// open connects to the database; done closes the connections.
func (f *replayFlags) open(s *session) (store *replay.Store, pool *pgxpool.Pool, err error) {
	if pool, f.info, err = f.outbox(s.ctx, "postrider replay", 3); err != nil {
		return nil, nil, err
	}
	if store, err = replay.New(s.ctx, pool, f.Schema, f.info.events); err != nil {
		pool.Close()
		return nil, nil, err
	}
	return store, pool, nil
}

// paceFlags bound a replay's rate, and shape and address the messages of a replay past the workers.
type paceFlags struct {
	natsFlags
	shapeFlags
	Rate       float64 `help:"Most events a second, at least 0.1; 0: as fast as it goes." default:"1000" env:"-"`
	BatchSize  int     `help:"Most events of one step." default:"500" env:"-"`
	MaxPending int     `help:"Wait while the outbox holds more rows that workers could publish." default:"5000" env:"-"`
	Subject    string  `help:"Template of the subjects behind a shadow's prefix; without it what is stored with the outbox, or events.{topic}.{type}." placeholder:"TEMPLATE"`
	OtherShape bool    `help:"Confirm that a shadow's messages are meant to look other than those of the workers." env:"-"`
}

type replayStartCmd struct {
	replayFlags
	paceFlags
	actorFlags
	Kind         string  `help:"What is replayed: ${enum}." enum:"range,rebuild-current,retry" default:"range" env:"-"`
	Sequence     *int64  `help:"Only that event." placeholder:"N" env:"-"`
	FromSequence *int64  `help:"Only events from that sequence on." placeholder:"N" env:"-"`
	ToSequence   *int64  `help:"Only events up to that sequence." placeholder:"N" env:"-"`
	Since        *string `help:"Only events recorded since then: 2026-01-02T03:04:05Z, or 10m: ten minutes ago." placeholder:"WHEN" env:"-"`
	Until        *string `help:"Only events recorded before then." placeholder:"WHEN" env:"-"`
	Stream       *string `name:"stream" help:"Only events of that stream." placeholder:"ID" env:"-"`
	Type         *string `help:"Only events of that type." placeholder:"NAME" env:"-"`
	Topic        *string `help:"Only events of that topic." placeholder:"NAME" env:"-"`
	Tenant       *string `help:"Only events of that tenant." placeholder:"ID" env:"-"`
	All          bool    `help:"Every event." env:"-"`
	ShadowPrefix *string `help:"Publish under that prefix, past the outbox; {id} is the replay's number. A bare --shadow-stream means replay.{id}." placeholder:"PREFIX" env:"-"`
	ShadowStream *string `help:"JetStream stream that captures the prefix." placeholder:"NAME" env:"-"`
	DryRun       bool    `help:"Count, and do nothing." env:"-"`
	Prepare      bool    `help:"Make the replay and count it; resume begins it." env:"-"`
	Expect       *int64  `help:"Do nothing unless so many events are selected." placeholder:"N" env:"-"`
	Yes          bool    `help:"Confirm that more than one event is meant." env:"-"`
}

func (c *replayStartCmd) Help() string {
	return `Replayed events reach the live subjects through the workers, in the order of their streams, under a higher
Outbox-Generation; events that still wait in the outbox are left out. With --shadow-prefix they are published
at once, under subjects of their own. Interrupted or killed, a replay goes on with ` + "`replay resume`" + `.

Examples:
  postrider replay --stream order-17 --dry-run
  postrider replay --since 2026-01-02T00:00:00Z --until 2026-01-03T00:00:00Z --rate 500 --yes --reason 'consumer lost a day'
  postrider replay --kind rebuild-current --topic shop --yes
  postrider replay --kind retry --all --yes
  postrider replay --all --shadow-prefix 'replay.{id}' --shadow-stream REPLAYS --yes`
}

// given stores a flag's text; it refuses an empty one, as a shell's empty variable must not select all.
func given(flag string, from *string, into *string) error {
	if from == nil {
		return nil
	}
	if *from == "" {
		return fmt.Errorf("%w: %s must not be empty", errRefused, flag)
	}
	*into = *from
	return nil
}

func (c *replayStartCmd) spec(now time.Time) (replay.Spec, error) {
	spec := replay.Spec{Kind: replay.JobKind(c.Kind), Actor: c.actor(), Reason: c.Reason}
	sel := &spec.Selection
	sel.All = c.All
	err := cmp.Or(
		given("--stream", c.Stream, &sel.Stream), given("--topic", c.Topic, &sel.Topic),
		given("--type", c.Type, &sel.Type), given("--tenant", c.Tenant, &sel.Tenant),
		given("--shadow-prefix", c.ShadowPrefix, &spec.Prefix), given("--shadow-stream", c.ShadowStream, &spec.Stream))
	if err != nil {
		return spec, err
	}
	if c.ShadowPrefix != nil || c.ShadowStream != nil {
		spec.Destination = replay.Shadow
	}
	for _, one := range []struct {
		flag string
		from *int64
		into []*int64
	}{
		{"--sequence", c.Sequence, []*int64{&sel.From, &sel.To}},
		{"--from-sequence", c.FromSequence, []*int64{&sel.From}},
		{"--to-sequence", c.ToSequence, []*int64{&sel.To}},
	} {
		if one.from == nil {
			continue
		}
		if *one.from < 1 || *one.into[0] != 0 {
			return spec, fmt.Errorf("%w: %s must be at least 1 and excludes --sequence, got %d", errRefused, one.flag, *one.from)
		}
		for _, into := range one.into {
			*into = *one.from
		}
	}
	since, until, err := span(c.Since, c.Until, now)
	if err != nil {
		return spec, err
	}
	sel.Since, sel.Until = pg.OrNull(since), pg.OrNull(until)
	spec = spec.WithDefaults()
	return spec, replayRefused(spec.Validate())
}

func (c *replayStartCmd) Run(s *session) error {
	if _, err := c.spec(time.Now()); err != nil {
		return err
	}
	if err := c.paceFlags.validate(); err != nil {
		return err
	}
	store, pool, err := c.open(s)
	if err != nil {
		return err
	}
	defer pool.Close()
	now, err := c.info.present(s.ctx, pool, c.Schema)
	if err != nil {
		return err
	}
	spec, err := c.spec(now)
	if err != nil {
		return err
	}
	p := newProgress(s.stderr)
	plan := replay.Estimate{}
	if c.DryRun || !c.Yes {
		plan, err = store.Count(s.ctx, spec, p.counting)
		p.end()
		if err != nil {
			return replayRefused(err)
		}
	}
	if c.DryRun {
		return c.printPlan(s.stdout, spec, plan)
	}
	if !c.Yes && plan.Selected > 1 {
		return fmt.Errorf("%w: this would replay %s; say --yes if that is meant", errRefused, counted(plan.Selected, "event"))
	}
	if !c.Yes && c.Expect == nil { // an unconfirmed selection must not grow after its count
		c.Expect = &plan.Selected
	}
	if spec.Destination == replay.Shadow {
		if err := c.tryShadow(s, pool, spec); err != nil {
			return err
		}
	}
	spec.Begin = !c.Prepare
	job, err := store.Create(s.ctx, spec, c.Expect, p.counting)
	p.end()
	if err != nil {
		return c.notMade(job, err)
	}
	if job.Held != "" {
		fmt.Fprintf(s.stderr, "replay %d: %s\n", job.ID, heldBack(job.Last, job.Held))
	}
	if c.Prepare {
		return c.printJob(s.stdout, job)
	}
	fmt.Fprintf(s.stderr, "replay %d: %s up to sequence %d\n", job.ID, counted(*job.Selected, "event"), job.Last)
	return c.work(s, store, pool, job, c.paceFlags, c.actor())
}

// notMade reports the state of a replay whose making failed.
func (c *replayStartCmd) notMade(job replay.Job, err error) error {
	var input *ops.InputError
	switch {
	case errors.Is(err, replay.ErrLiveRunning):
		return fmt.Errorf("%w: %w", errRefused, err)
	case errors.As(err, &input) || job.ID == 0:
		return replayRefused(err)
	case errors.Is(err, context.Canceled):
		err = errors.New("interrupted while it was counted")
	}
	return fmt.Errorf("replay %d: %w\nIt is kept. Go on with: postrider replay resume %d, or end it with: postrider replay cancel %d", job.ID, err, job.ID, job.ID)
}

// heldBack explains an end that lies below the requested one.
func heldBack(last int64, held string) string {
	return fmt.Sprintf("events above sequence %d are left out: open transactions (%s) may still write between them", last, held)
}

func (f paceFlags) config() replay.RunConfig {
	return replay.RunConfig{Rate: f.Rate, BatchSize: f.BatchSize, MaxPending: f.MaxPending}
}

func (f paceFlags) validate() error {
	if err := f.config().Validate(); err != nil {
		return replayRefused(err)
	}
	return f.shapeFlags.validate()
}

// work runs a replay to its end, or prints the commands that continue it.
func (f *replayFlags) work(s *session, store *replay.Store, pool *pgxpool.Pool, job replay.Job, pace paceFlags, actor string) error {
	cfg := pace.config()
	p := newProgress(s.stderr)
	cfg.Actor, cfg.Progress, cfg.Counting = actor, p.replaying, p.counting
	if job.Destination == replay.Shadow {
		done, err := f.shadow(s, pool, job, pace, &cfg)
		if err != nil {
			return fmt.Errorf("%w\nReplay %d is kept: postrider replay resume %d", shadowMissing(err, job.Prefix, job.Stream), job.ID, job.ID)
		}
		defer done()
	}
	after, err := store.Run(s.ctx, job.ID, cfg)
	p.end()
	switch {
	case errors.Is(err, replay.ErrEnded), errors.Is(err, replay.ErrLiveRunning), errors.Is(err, replay.ErrNotFound):
		return fmt.Errorf("%w: %w", errRefused, err)
	case errors.Is(err, replay.ErrTaken):
		return fmt.Errorf("replay %d: %w", job.ID, err)
	case err != nil:
		if errors.Is(err, context.Canceled) {
			err = errors.New("interrupted")
		}
		return fmt.Errorf("replay %d: %w; %s of %s done\nGo on with: postrider replay resume %d", job.ID, replayRefused(err),
			humanize.Comma(after.Replayed+after.Gone+after.Failed), counted(orZero(after.Selected), "event"), job.ID)
	}
	if err := f.printJob(s.stdout, after); err != nil {
		return err
	}
	if differs := after.Differs(); differs != "" {
		return fmt.Errorf("replay %d: %s", after.ID, differs)
	}
	if after.Failed > 0 {
		return fmt.Errorf("%s could not be published: %s", counted(after.Failed, "event"), after.LastError)
	}
	return nil
}

func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// replayRefused says in terms of flags that nothing or too much is selected.
func replayRefused(err error) error {
	var input *ops.InputError
	if errors.As(err, &input) && input.Field == "selection" {
		return fmt.Errorf("%w: nothing is selected, or --all besides conditions: give --sequence, --from-sequence, --to-sequence, --since, --until, "+
			"--stream, --type, --topic or --tenant, or --all alone", errRefused)
	}
	return flagRefused(err)
}

type replayResumeCmd struct {
	replayFlags
	paceFlags
	whoFlags
	ID int64 `arg:"" name:"id" help:"Number of the replay."`
}

func (c *replayResumeCmd) Help() string {
	return `What was dealt with is not repeated. A process that still works on the replay finds out at its next step and ends.

Example:
  postrider replay resume 7 --rate 200`
}

func (c *replayResumeCmd) Run(s *session) error {
	if err := c.paceFlags.validate(); err != nil {
		return err
	}
	store, pool, err := c.open(s)
	if err != nil {
		return err
	}
	defer pool.Close()
	job, err := store.Get(s.ctx, c.ID)
	if errors.Is(err, replay.ErrNotFound) {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	if err == nil && job.Destination == replay.Shadow && !job.Ended() {
		err = c.checkShape(s, pool, c.Schema)
	}
	if err != nil {
		return err
	}
	return c.work(s, store, pool, job, c.paceFlags, c.actor())
}
