package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
)

type deadCausesCmd struct {
	operatorFlags
	filterFlags
}

func (c *deadCausesCmd) Help() string {
	return `Messages of one topic and type whose last errors differ in numbers, ids and quoted text alone died of one
cause: # stands for what differs. At most a minute is spent on looking.

Examples:
  postrider dead causes
  postrider dead causes --topic shop --json
  postrider dead requeue --topic shop --type order.paid --error-family 'payload of # bytes is too large' --dry-run`
}

const causesWithin = time.Minute

func (c *deadCausesCmd) Run(s *session) error {
	filter, err := c.filter()
	if err != nil {
		return err
	}
	if c.ID != nil {
		return fmt.Errorf("%w: --id names a single message, which is not grouped; postrider messages show tells its cause", errRefused)
	}
	op, done, err := c.operator(s)
	if err != nil {
		return err
	}
	defer done()
	if err := c.find(s.ctx, op, &filter); err != nil {
		return err
	}
	causes, err := op.Causes(s.ctx, filter, causesWithin)
	if err != nil {
		return inputRefused(err)
	}
	if c.JSON {
		return writeJSON(s.stdout, causes.Body())
	}
	var rows []table.Row
	for _, one := range causes.List {
		rows = append(rows, table.Row{
			humanize.Comma(one.Count), printable(clip(one.Topic, 20)), printable(clip(one.Type, 30)), cmp.Or(one.Class, "–"),
			one.Last.UTC().Format(time.RFC3339), one.Example, printable(cmp.Or(one.Family, "–")),
		})
	}
	writeTable(s.stdout, table.Row{"messages", "topic", "type", "class", "last died", "example", "error family"}, rows)
	if causes.Others > 0 {
		fmt.Fprintf(s.stderr, "%s of rarer causes\n", counted(causes.Others, "message"))
	}
	if causes.More {
		fmt.Fprintf(s.stderr, "not all were looked at within %s: these are at least so many\n", causesWithin)
	}
	return nil
}
