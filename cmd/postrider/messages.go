package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/postrider/postrider/delivery/ops"
)

type messagesCmd struct {
	List messagesListCmd `cmd:"" help:"List messages by state, partition, stream, topic, type or time."`
	Show messagesShowCmd `cmd:"" help:"Show everything about one message."`

	Cancel messagesCancelCmd `cmd:"" help:"Settle scheduled messages without publishing them."`
	Move   messagesMoveCmd   `cmd:"" help:"Give scheduled messages another time."`
}

type messagesListCmd struct {
	listFlags
	State []string `help:"Only messages in that state: pending, scheduled, failed, blocked, dead, published, skipped or discarded; repeatable." env:"-"`
}

func (c *messagesListCmd) Run(s *session) error {
	states := make([]ops.State, len(c.State))
	for i, name := range c.State {
		var err error
		if states[i], err = ops.ParseState(name); err != nil {
			return inputRefused(err)
		}
	}
	return c.list(s, states, func(messages []ops.Message) {
		var rows []table.Row
		for _, m := range messages {
			settled := "–"
			switch {
			case m.PublishedAt != nil:
				settled = m.PublishedAt.Format(time.RFC3339)
			case m.State == ops.Scheduled && m.AvailableAt != nil:
				settled = "due " + m.AvailableAt.Format(time.RFC3339)
			}
			place := "–"
			if m.StreamSequence != nil {
				place = strconv.FormatInt(*m.StreamSequence, 10)
			}
			rows = append(rows, table.Row{
				m.Sequence, m.Partition, printable(clip(m.Stream, 40)), printable(clip(m.Type, 40)), m.State, m.Attempts, settled, place,
				printable(clip(m.LastError, 60)),
			})
		}
		writeTable(s.stdout, table.Row{
			"sequence", "partition", "stream", "type", "state", "attempts", "settled or due", "stream sequence", "last error",
		}, rows)
	})
}

type messagesShowCmd struct {
	operatorFlags
	Message string `arg:"" name:"message" help:"The message's sequence, or the event's id, or enough of its beginning to name it alone."`
	Payload bool   `help:"Print the payload, too: as text when it is UTF-8, else as base64." env:"-"`
}

type detailBody struct {
	ops.DetailBody

	Payload *string `json:"payload,omitempty"`
	Base64  *string `json:"payload_base64,omitempty"`
}

func (c *messagesShowCmd) Run(s *session) error {
	if n, err := strconv.ParseInt(c.Message, 10, 64); err != nil || n < 1 {
		if err := ops.CheckEventID(c.Message); err != nil {
			return messageRefused(err)
		}
	}
	op, done, err := c.operator(s)
	if err != nil {
		return err
	}
	defer done()
	sequence, err := messageNamed(s.ctx, op, c.Message)
	if err != nil {
		return err
	}
	d, err := op.Show(s.ctx, sequence)
	if err != nil {
		return inputRefused(err)
	}
	var payload []byte
	if c.Payload && d.Event != nil {
		if payload, err = op.Payload(s.ctx, sequence); err != nil {
			return inputRefused(err)
		}
	}
	body := detailBody{DetailBody: d.Body()}
	if c.Payload && d.Event != nil {
		text := string(payload)
		if body.Payload = &text; !utf8.Valid(payload) {
			text = base64.StdEncoding.EncodeToString(payload)
			body.Payload, body.Base64 = nil, &text
		}
	}
	if c.JSON {
		return writeJSON(s.stdout, body)
	}
	writeDetail(s.stdout, d, body)
	return nil
}

// messageNamed finds a message by its sequence, or its event's id or a unique part of that.
func messageNamed(ctx context.Context, op *ops.Operator, text string) (int64, error) {
	if sequence, err := strconv.ParseInt(text, 10, 64); err == nil && sequence > 0 {
		return sequence, nil
	}
	id, err := op.FindEvent(ctx, text)
	if err != nil {
		return 0, messageRefused(err)
	}
	sequence, err := op.Find(ctx, id)
	return sequence, messageRefused(err)
}

func messageRefused(err error) error {
	var input *ops.InputError
	if errors.As(err, &input) {
		return fmt.Errorf("%w: MESSAGE: %s; a sequence above 0 is taken, too", errRefused, input.Problem)
	}
	return err
}

func writeDetail(out io.Writer, d ops.Detail, b detailBody) {
	rows := []table.Row{
		{"state", d.State},
		{"partition", d.Partition},
		{"stream", printable(d.Stream)},
		{"topic", printable(d.Topic)},
		{"attempts", d.Attempts},
		{"generation", d.Generation},
	}
	add := func(name string, value any) { rows = append(rows, table.Row{name, value}) }
	addTime := func(name string, t *time.Time) {
		if t != nil {
			add(name, t.Format(time.RFC3339Nano))
		}
	}
	if d.State == ops.Scheduled || d.State == ops.Failed || d.State == ops.Pending {
		addTime("available", d.AvailableAt)
	}
	addTime("dead since", d.DeadAt)
	if d.LastError != "" {
		add("last error", printable(d.LastError))
	}
	if d.Event == nil {
		add("event", "not found in the events relation")
	} else {
		add("event id", d.EventID)
		add("type", printable(d.Type))
		add("stream version", d.StreamVersion)
		addTime("occurred", d.Event.OccurredAt)
		addTime("recorded", &d.RecordedAt)
		if d.Event.TenantID != "" {
			add("tenant", printable(d.Event.TenantID))
		}
		if d.Event.Metadata != nil {
			add("metadata", printable(string(d.Event.Metadata)))
		}
	}
	if d.BlockedBy != nil {
		add("waits behind", fmt.Sprintf("%d (%s)", d.BlockedBy.Sequence, d.BlockedBy.State))
	}
	if d.State.Queued() {
		add("wait behind it", waiting(d))
	}
	writeTable(out, table.Row{"message", d.Sequence}, rows)
	if len(d.Failures) > 0 {
		fmt.Fprintln(out)
		writeTable(out, table.Row{"failed attempts", "at", "worker", "error"}, failureRows(d))
	}
	if len(d.Deliveries) > 0 {
		fmt.Fprintln(out)
		writeTable(out, table.Row{"deliveries", "at", "stream sequence", "partition", "epoch", "attempts", "generation"}, deliveryRows(d))
	}
	switch {
	case b.Payload != nil:
		fmt.Fprintln(out, "\npayload:\n"+printable(*b.Payload))
	case b.Base64 != nil:
		fmt.Fprintln(out, "\npayload (base64):\n"+*b.Base64)
	}
}

func waiting(d ops.Detail) string {
	if d.Behind == 0 && !d.BehindMore {
		return "none"
	}
	first := make([]string, 0, len(d.Next))
	for _, n := range d.Next {
		first = append(first, fmt.Sprintf("%d (%s)", n.Sequence, n.State))
	}
	text := strings.Join(first, ", ")
	if int(d.Behind) > len(first) {
		text += ", …"
	}
	if d.BehindMore {
		return fmt.Sprintf("at least %d: %s", d.Behind, text)
	}
	return fmt.Sprintf("%d: %s", d.Behind, text)
}

func failureRows(d ops.Detail) []table.Row {
	var rows []table.Row
	for _, one := range d.Failures {
		worker := "–"
		if one.Worker != nil {
			worker = one.Worker.String()
		}
		rows = append(rows, table.Row{printable(one.Class), one.At.Format(time.RFC3339Nano), worker, printable(clip(one.Text, 100))})
	}
	return rows
}

func deliveryRows(d ops.Detail) []table.Row {
	var rows []table.Row
	for _, one := range d.Deliveries {
		state, place := string(one.State), "–"
		if one.Lost {
			state += ", lost"
		}
		if one.StreamSequence != nil {
			place = strconv.FormatInt(*one.StreamSequence, 10)
		}
		rows = append(rows, table.Row{state, one.PublishedAt.Format(time.RFC3339Nano), place, one.Partition, one.Epoch, one.Attempts, one.Generation})
	}
	return rows
}

// printable keeps data from steering the terminal: it escapes hidden characters, and control characters but tabs and line feeds.
func printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		if hidden(r) || unicode.IsControl(r) && r != '\n' && r != '\t' {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

type messagesCancelCmd struct{ mendFlags }

func (c *messagesCancelCmd) Help() string {
	return "A cancelled message is shown as discarded, and what waits behind it goes on. The event stays in the events table; consumers\n" +
		"see a gap in its stream. A message whose time comes meanwhile is published. --reason is required.\n" + fmt.Sprintf(scheduleHelp, "cancel", "")
}

const scheduleHelp = `
Without a selection (sequences, filters or --all) nothing is done. More than one message takes --yes.

Examples:
  postrider messages list --state scheduled
  postrider messages %[1]s 4711%[2]s --reason 'the customer called'
  postrider messages %[1]s --stream order-17%[2]s --yes --reason 'the customer called'`

func (c *messagesCancelCmd) Run(s *session) error {
	return c.mend(s, ops.Scheduled, mending{(*ops.Operator).Cancel, "cancel", "cancelled", true})
}

type messagesMoveCmd struct {
	mendFlags
	At string `help:"When they are to be published: 2026-01-02T03:04:05Z, or 10m: in ten minutes; 0s: now." required:"" placeholder:"WHEN" env:"-"`
}

func (c *messagesMoveCmd) Help() string {
	return "What waits behind a moved message waits with it. A message whose time comes meanwhile is published.\n" +
		fmt.Sprintf(scheduleHelp, "move", " --at 2h")
}

func (c *messagesMoveCmd) Run(s *session) error {
	if _, err := moment("--at", c.At, time.Now(), 1, "from"); err != nil {
		return err
	}
	move := func(o *ops.Operator, ctx context.Context, command ops.Command) (ops.Changed, error) {
		now, err := o.Now(ctx)
		if err != nil {
			return ops.Changed{}, err
		}
		at, err := moment("--at", c.At, now, 1, "from")
		if err != nil {
			return ops.Changed{}, err
		}
		return o.Move(ctx, command, at)
	}
	return c.mend(s, ops.Scheduled, mending{move, "move", "moved", false})
}
