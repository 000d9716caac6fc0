package main

import (
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider/delivery/ops"
)

type messagesCancelCmd struct{ mendFlags }

// Help explains below the flags.
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

// Run cancels.
func (c *messagesCancelCmd) Run(s *session) error {
	return c.mend(s, ops.Scheduled, mending{(*ops.Operator).Cancel, "cancel", "cancelled"})
}

type messagesMoveCmd struct {
	mendFlags
	At string `help:"When they are to be published: 2026-01-02T03:04:05Z, or 10m: in ten minutes; 0s: now." required:"" placeholder:"WHEN" env:"-"`
}

// Help explains below the flags.
func (c *messagesMoveCmd) Help() string {
	return "What waits behind a moved message waits with it. A message whose time comes meanwhile is published.\n" +
		fmt.Sprintf(scheduleHelp, "move", " --at 2h")
}

// Run moves.
func (c *messagesMoveCmd) Run(s *session) error {
	at, err := ahead("--at", c.At)
	if err != nil {
		return err
	}
	move := func(o *ops.Operator, ctx context.Context, command ops.Command) (ops.Changed, error) {
		return o.Move(ctx, command, at)
	}
	return c.mend(s, ops.Scheduled, mending{move, "move", "moved"})
}

// ahead reads a time, or a duration from now.
func ahead(flag, text string) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return time.Now().Add(d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.IsZero() {
		return time.Time{}, fmt.Errorf("%w: %s must be a time as 2026-01-02T03:04:05Z or a duration from now as 10m, got %q", errRefused, flag, text)
	}
	return at, nil
}
