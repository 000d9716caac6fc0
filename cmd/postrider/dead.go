package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/google/uuid"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/postrider/postrider/delivery/ops"
)

type deadCmd struct {
	List    deadListCmd    `cmd:"" help:"List the messages that wait for a person."`
	Causes  deadCausesCmd  `cmd:"" help:"Group the dead messages by what they died of."`
	Requeue deadRequeueCmd `cmd:"" help:"Deliver dead messages anew, in the order of their streams."`
	Skip    deadSkipCmd    `cmd:"" help:"Settle dead messages without publishing them, and let their streams go on."`
	Discard deadDiscardCmd `cmd:"" help:"As skip, for messages that shall never be published."`
}

// filterFlags select messages. They have no variables: an omitted filter must not come from the environment.
type filterFlags struct {
	Partition     []int   `help:"Only messages of that partition; repeatable." placeholder:"N" env:"-"`
	Stream        *string `help:"Only messages of that stream." placeholder:"ID" env:"-"`
	Topic         *string `help:"Only messages of that topic." placeholder:"NAME" env:"-"`
	Type          *string `help:"Only messages whose event has that type." placeholder:"NAME" env:"-"`
	Tenant        *string `help:"Only messages whose event has that tenant." placeholder:"ID" env:"-"`
	ErrorContains *string `help:"Only messages whose last error contains that text." placeholder:"TEXT" env:"-"`
	ErrorFamily   *string `help:"Only messages whose last error is like that, as 'dead causes' writes it." placeholder:"TEXT" env:"-"`
	ID            *string `help:"Only the message of that event." placeholder:"UUID" env:"-"`
	Since         *string `help:"Only events recorded since then: 2026-01-02T03:04:05Z, or 10m: ten minutes ago." placeholder:"WHEN" env:"-"`
	Until         *string `help:"Only events recorded before then." placeholder:"WHEN" env:"-"`
}

func (f filterFlags) filter() (ops.Filter, error) {
	var a ops.Filter
	var err error
	if a.Partitions, err = partitionIDs("--partition", f.Partition); err != nil {
		return a, err
	}
	err = cmp.Or(
		given("--stream", f.Stream, &a.Stream), given("--topic", f.Topic, &a.Topic),
		given("--type", f.Type, &a.Type), given("--tenant", f.Tenant, &a.Tenant),
		given("--error-contains", f.ErrorContains, &a.ErrorContains), given("--error-family", f.ErrorFamily, &a.ErrorFamily))
	if err != nil {
		return a, err
	}
	if f.ID != nil { // keeps the filter from being empty until the id is looked up
		if err := inputRefused(ops.CheckEventID(*f.ID)); err != nil {
			return a, err
		}
		a.EventID = uuid.Max
	}
	a.Since, a.Until, err = span(f.Since, f.Until, time.Now())
	return a, err
}

// find looks up the event of --id, by its id or a unique part, and reads times relative to the database's clock.
func (f filterFlags) find(ctx context.Context, op *ops.Operator, into *ops.Filter) error {
	var err error
	if f.Since != nil || f.Until != nil {
		var now time.Time
		if now, err = op.Now(ctx); err == nil {
			into.Since, into.Until, err = span(f.Since, f.Until, now)
		}
	}
	if err == nil && f.ID != nil {
		into.EventID, err = op.FindEvent(ctx, *f.ID)
	}
	return inputRefused(err)
}

// span reads --since and --until relative to now.
func span(since, until *string, now time.Time) (from, to time.Time, err error) {
	if since != nil {
		from, err = moment("--since", *since, now, -1, "before")
	}
	if until != nil && err == nil {
		to, err = moment("--until", *until, now, -1, "before")
	}
	return from, to, err
}

// moment reads a time, or a duration before (-1) or from (1) now.
func moment(flag, text string, now time.Time, sign time.Duration, side string) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(sign * d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.IsZero() {
		return time.Time{}, fmt.Errorf("%w: %s must be a time as 2026-01-02T03:04:05Z or a duration %s now as 10m, got %q", errRefused, flag, side, text)
	}
	return at, nil
}

type listFlags struct {
	operatorFlags
	filterFlags
	Limit       int   `help:"Most messages." default:"100" env:"-"`
	After       int64 `help:"Begin behind this sequence: the last one of the page before." placeholder:"SEQUENCE" env:"-"`
	NewestFirst bool  `help:"Begin with the highest sequence." env:"-"`
}

// list prints a page of messages, as JSON or by show.
func (f *listFlags) list(s *session, states []ops.State, show func([]ops.Message)) error {
	filter, err := f.filter()
	if err != nil {
		return err
	}
	filter.States = states
	if f.Limit < 1 || f.After < 0 {
		return fmt.Errorf("%w: --limit must be at least 1 and --after at least 0, got %d and %d", errRefused, f.Limit, f.After)
	}
	op, done, err := f.operator(s)
	if err != nil {
		return err
	}
	defer done()
	if err := f.find(s.ctx, op, &filter); err != nil {
		return err
	}
	bodies := []ops.MessageBody{}
	messages, next, err := f.search(s, op, filter)
	if err != nil {
		return inputRefused(err)
	}
	if f.JSON {
		for _, m := range messages {
			bodies = append(bodies, m.Body())
		}
		return writeJSON(s.stdout, bodies)
	}
	show(messages)
	if next != 0 {
		fmt.Fprintf(s.stderr, "there may be more: --after %d\n", next)
	}
	return nil
}

// listStep bounds one statement's search; progress is printed between two.
const listStep = time.Second

// search lists messages until the limit is reached, or none are left.
func (f *listFlags) search(s *session, op *ops.Operator, filter ops.Filter) (messages []ops.Message, next int64, err error) {
	messages, next = []ops.Message{}, f.After
	told := passingLine{statusLine: newStatusLine(s.stderr)}
	defer told.clear()
	for first := true; len(messages) < f.Limit && (first || next != 0); first = false {
		l, err := op.List(s.ctx, filter, ops.Page{
			After: next, Limit: min(f.Limit-len(messages), ops.MaxLimit), Descending: f.NewestFirst, Within: listStep,
		})
		if err != nil {
			return nil, 0, err
		}
		messages = append(messages, l.Messages...)
		if next = l.Next; l.LookedUpTo != 0 {
			told.show("searched up to sequence %s, found %s", humanize.Comma(l.LookedUpTo), counted(len(messages), "message"))
		}
	}
	return messages, next, nil
}

type deadListCmd struct{ listFlags }

func (c *deadListCmd) Run(s *session) error {
	return c.list(s, []ops.State{ops.Dead}, func(messages []ops.Message) {
		var rows []table.Row
		for _, m := range messages {
			since := "–"
			if m.DeadAt != nil {
				since = m.DeadAt.Format(time.RFC3339)
			}
			rows = append(rows, table.Row{
				m.Sequence, m.Partition, printable(clip(m.Stream, 40)), printable(clip(m.Type, 40)), m.Attempts, since,
				printable(clip(m.LastError, 100)),
			})
		}
		writeTable(s.stdout, table.Row{"sequence", "partition", "stream", "type", "attempts", "dead since", "last error"}, rows)
	})
}

// mendFlags are shared by the commands that end a message's wait.
type mendFlags struct {
	operatorFlags
	filterFlags
	actorFlags
	Sequences []int64 `arg:"" optional:"" name:"sequence" help:"Sequences of messages."`
	All       bool    `help:"Every message of that state." env:"-"`
	Limit     *int64  `help:"Most messages, of each stream the first ones: to try a few before the rest." placeholder:"N" env:"-"`
	DryRun    bool    `help:"Count, and do nothing." env:"-"`
	Yes       bool    `help:"Confirm that more than one message is meant." env:"-"`
}

type deadRequeueCmd struct {
	mendFlags
	State string `help:"Which messages: ${enum}. Failed ones are tried now instead of later." enum:"dead,failed" default:"dead" env:"-"`
}

const mendHelp = `
Without a selection (sequences, filters or --all) nothing is done. More than one message takes --yes.

Examples:
  postrider dead %[1]s 4711 --reason 'payload was repaired'
  postrider dead %[1]s --topic shop --error-contains max_payload --dry-run
  postrider dead %[1]s --all --limit 10 --yes --reason 'a try'
  postrider dead %[1]s --all --yes --reason 'limit was raised'`

func (c *deadRequeueCmd) Help() string {
	return "A requeued message begins anew, without attempts and under a new message id. What waits behind it follows\n" +
		"in order; a message behind an earlier dead one of its stream waits for that one.\n" + fmt.Sprintf(mendHelp, "requeue")
}

func (c *deadRequeueCmd) Run(s *session) error {
	return c.mend(s, ops.State(c.State), mending{(*ops.Operator).Requeue, "requeue", "requeued", false})
}

type deadSkipCmd struct{ mendFlags }

func (c *deadSkipCmd) Help() string {
	return "The event stays in the events table; consumers see a gap in its stream. --reason is required.\n" + fmt.Sprintf(mendHelp, "skip")
}

func (c *deadSkipCmd) Run(s *session) error {
	return c.mend(s, ops.Dead, mending{(*ops.Operator).Skip, "skip", "skipped", true})
}

type deadDiscardCmd struct{ mendFlags }

func (c *deadDiscardCmd) Help() string {
	return "The event stays in the events table; consumers see a gap in its stream. --reason is required.\n" + fmt.Sprintf(mendHelp, "discard")
}

func (c *deadDiscardCmd) Run(s *session) error {
	return c.mend(s, ops.Dead, mending{(*ops.Operator).Discard, "discard", "discarded", true})
}

type mending struct {
	do        func(*ops.Operator, context.Context, ops.Command) (ops.Changed, error)
	verb, did string
	reasoned  bool // takes a reason
}

func (f *mendFlags) mend(s *session, state ops.State, m mending) error {
	filter, err := f.filter()
	if err != nil {
		return err
	}
	c := ops.Command{
		Selection: ops.Selection{State: state, Sequences: f.Sequences, Filter: filter, All: f.All},
		Actor:     f.actor(), Reason: f.Reason, DryRun: true,
	}
	if len(f.Sequences) == 0 && !f.All && filter.Empty() {
		return fmt.Errorf("%w: nothing is selected: give sequences, filters (--partition, --stream, --topic, --type, --tenant, --error-contains, "+
			"--error-family, --id, --since, --until) or --all", errRefused)
	}
	if f.Limit != nil {
		if c.Most = *f.Limit; c.Most < 1 {
			return fmt.Errorf("%w: --limit must be at least 1, got %d", errRefused, c.Most)
		}
	}
	if m.reasoned && strings.TrimSpace(c.Reason) == "" {
		c.Reason = "counting" // a count writes no audit
	}
	op, done, err := f.operator(s)
	if err != nil {
		return err
	}
	defer done()
	if err := f.find(s.ctx, op, &c.Selection.Filter); err != nil {
		return err
	}
	told := passingLine{statusLine: newStatusLine(s.stderr)}
	c.Counting = func(n int64) { told.show("counting: %s", counted(n, "message")) }
	r, err := m.do(op, s.ctx, c) // a real run confirms this count
	told.clear()
	if err != nil {
		return inputRefused(err)
	}
	total := r.Count
	if !f.DryRun && total > 0 {
		reason := f.Reason
		if !m.reasoned {
			reason = cmp.Or(reason, "none")
		}
		if err := confirmed(fmt.Sprintf("this would %s %s", m.verb, counted(total, "message")), reason, total <= 1 || f.Yes); err != nil {
			return err
		}
		progress := &mendProgress{statusLine: newStatusLine(s.stderr), total: total}
		c.DryRun, c.Progress = false, progress.show
		if !f.Yes { // one message was meant, not all that match by now
			c.Expected = &total
		}
		r, err = m.do(op, s.ctx, c)
		progress.end()
		if err != nil && r.Count > 0 {
			err = fmt.Errorf("after %s of %s were %s: %w", humanize.Comma(r.Count), counted(total, "message"), m.did, err)
		}
		if err != nil {
			return inputRefused(err)
		}
	}
	text := m.did + " " + counted(r.Count, "message")
	if f.DryRun {
		text = "would " + m.verb + " " + counted(r.Count, "message")
	}
	if r.Waiting > 0 {
		text += fmt.Sprintf("; %s wait behind an earlier dead message", humanize.Comma(r.Waiting))
	}
	if r.Gone > 0 {
		text += fmt.Sprintf("; %s were no longer %s", humanize.Comma(r.Gone), state)
	}
	return answer(s.stdout, f.JSON, r.Body(m.verb, state, f.DryRun), text)
}

// counted writes a number with its noun.
func counted[N int | int64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return humanize.Comma(int64(n)) + " " + noun
}

type mendProgress struct {
	statusLine
	total int64
}

func (p *mendProgress) show(r ops.Changed) {
	if r.Count+r.Gone >= p.total && !p.open { // the result line follows
		return
	}
	p.write(fmt.Sprintf("%s of %s", humanize.Comma(r.Count+r.Gone), counted(p.total, "message")))
}
