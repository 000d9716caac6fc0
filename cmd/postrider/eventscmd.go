package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/ops/parts"
)

type eventsCmd struct {
	Split eventsSplitCmd `cmd:"" help:"Put the events into a partitioned table, of which parts can be dropped."`
	List  eventsListCmd  `cmd:"" help:"List the parts of the events."`
	Begin eventsBeginCmd `cmd:"" help:"Begin the next part, for example each month."`
	Prune eventsPruneCmd `cmd:"" help:"Archive and drop the oldest parts."`
}

func (c *eventsCmd) Help() string {
	return `Run these as the owner of the tables. With events in parts old ones go at once, without a DELETE: split them once,
begin a part each month, and prune those that are older than you need. Streams go on at their next versions.

Examples:
  postrider events split --yes --reason "keep a year"
  postrider events begin && postrider events prune --keep 13 --archive /var/backups/events --yes --reason "a year is kept"`
}

type eventsFlags struct {
	databaseFlags
	JSON bool `help:"Print JSON." name:"json"`
}

// with opens the store and runs do with it.
func (f eventsFlags) with(s *session, patience time.Duration, do func(*parts.Store) error) error {
	pool, _, err := f.outbox(s.ctx, "postrider events", 2)
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := parts.New(parts.Config{Pool: pool, Schema: f.Schema, Patience: patience})
	if err != nil {
		return err
	}
	err = do(store)
	var input *ops.InputError
	switch {
	case errors.Is(err, parts.ErrNotSplit):
		return fmt.Errorf("%w: %w; `postrider events split` makes them", errRefused, err)
	case errors.As(err, &input):
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return err
}

type eventsChange struct {
	eventsFlags
	actorFlags
	Timeout time.Duration `help:"How long to try for a lock on the table. Producers wait for half a second at a time." default:"1m" env:"-"`
}

func (f eventsChange) who() parts.Who { return parts.Who{Actor: f.actor(), Reason: f.Reason} }

// confirmFlags confirm irreversible acts.
type confirmFlags struct {
	DryRun bool `help:"Say what would be done, and do nothing." env:"-"`
	Yes    bool `help:"Confirm it." env:"-"`
}

func (f confirmFlags) confirmed(what, reason string) error {
	if f.DryRun {
		return nil
	}
	return confirmed(what, reason, f.Yes)
}

type eventsSplitCmd struct {
	eventsChange
	confirmFlags
}

func (c *eventsSplitCmd) Help() string {
	return `The present events become the first part. They are read once, beside producers; then the table is locked for an instant.
Rights go over. Ids and versions stay unique over all parts for whoever appends with the functions; a role that inserts into
events itself is only held to those of the current part. Views, foreign keys and triggers on events are refused, and named.

Examples:
  postrider events split --dry-run
  postrider events split --yes --reason "keep a year"`
}

func (c *eventsSplitCmd) Run(s *session) error {
	missing := c.confirmed("the table of events is replaced by a partitioned one", c.Reason)
	return c.with(s, c.Timeout, func(store *parts.Store) error {
		hindrance, err := store.Hindrance(s.ctx)
		switch {
		case err != nil:
			return err
		case missing != nil && hindrance != "":
			return fmt.Errorf("%w; and this is in the way: %s; remove it first, and make it anew afterwards", missing, hindrance)
		case missing != nil:
			return missing
		}
		if c.DryRun {
			text := "nothing is in the way"
			if hindrance != "" {
				text = "in the way: " + hindrance
			}
			return answer(s.stdout, c.JSON, map[string]any{"hindrance": hindrance, "dry_run": true}, printable(text))
		}
		done, err := store.Split(s.ctx, c.who())
		if err != nil {
			return err
		}
		text := "events are in parts now"
		if !done {
			text = "events were in parts already"
		}
		return answer(s.stdout, c.JSON, map[string]any{"split": done, "dry_run": false}, text)
	})
}

type eventsListCmd struct{ eventsFlags }

func (c *eventsListCmd) Run(s *session) error {
	return c.with(s, 0, func(store *parts.Store) error {
		list, err := store.List(s.ctx)
		if err != nil {
			return err
		}
		rows := make([]table.Row, len(list))
		for i, p := range list {
			rows[i] = table.Row{p.Number, p.Table, "~" + humanize.Comma(p.Events), humanize.IBytes(uint64(max(p.Bytes, 0))), "-", "-", "-"}
			if p.First != nil {
				rows[i] = append(rows[i][:4], *p.First, p.FirstRecorded.UTC().Format(time.DateOnly), p.LastRecorded.UTC().Format(time.DateOnly))
			}
		}
		return answerRows(s.stdout, c.JSON, list, table.Row{"PART", "TABLE", "EVENTS", "SIZE", "FIRST", "FROM", "TO"}, rows)
	})
}

type eventsBeginCmd struct{ eventsChange }

func (c *eventsBeginCmd) Help() string {
	return `Events from now on go into a new part, and the one behind it is made. It waits for transactions that have appended; where
one stays open longer than --timeout the command ends with status 1 and names it, and the present part goes on.

Example, on the first of each month:
  postrider events begin`
}

func (c *eventsBeginCmd) Run(s *session) error {
	return c.with(s, c.Timeout, func(store *parts.Store) error {
		part, begun, err := store.Begin(s.ctx, c.who())
		if err != nil {
			return err
		}
		text := fmt.Sprintf("part %d has begun", part)
		if !begun {
			text = "the newest part is empty, and stays the one to be filled"
		}
		return answer(s.stdout, c.JSON, map[string]any{"part": part, "begun": begun}, text)
	})
}

type eventsPruneCmd struct {
	eventsChange
	confirmFlags
	Keep    int    `help:"How many parts with events stay, the newest ones: at least 1." required:"" env:"-"`
	Archive string `help:"Folder for files that an import reads back: events-N.jsonl.gz." placeholder:"DIR" env:"-"`
	Discard bool   `help:"Keep no copy." env:"-"`
}

func (c *eventsPruneCmd) Help() string {
	return `A part goes only when none of its events waits in the outbox or for a replay. What was delivered of it stays in the
stream, and in the history until --retention. It cannot be replayed any more, nor can a projection be built anew from it.

Examples:
  postrider events prune --keep 13 --archive /var/backups/events --dry-run
  postrider events prune --keep 13 --archive /var/backups/events --yes --reason "a year is kept"`
}

type pruned struct {
	parts.Part
	parts.Archived
}

func (c *eventsPruneCmd) Run(s *session) error {
	switch {
	case c.Keep < 1:
		return fmt.Errorf("%w: --keep must be at least 1, got %d", errRefused, c.Keep)
	case (c.Archive == "") != c.Discard:
		return fmt.Errorf("%w: give either --archive DIR or --discard", errRefused)
	}
	return c.with(s, c.Timeout, func(store *parts.Store) error {
		if info, err := os.Stat(c.Archive); c.Archive != "" && (err != nil || !info.IsDir()) {
			return fmt.Errorf("%w: --archive: %s is no folder", errRefused, c.Archive)
		}
		list, err := store.List(s.ctx)
		if err != nil {
			return err
		}
		old := surplus(list, c.Keep)
		if err := c.confirmed(dropping(old), c.Reason); len(old) > 0 && err != nil {
			return err
		}
		gone := []pruned{}
		for _, part := range old {
			one := pruned{Part: part}
			if !c.DryRun {
				if one, err = c.prune(s, store, part); err != nil {
					break
				}
			}
			gone = append(gone, one)
		}
		return errors.Join(c.print(s, gone), err)
	})
}

// surplus returns the oldest parts beyond the last keep filled ones.
func surplus(list []parts.Part, keep int) []parts.Part {
	filled := 0
	for _, p := range list {
		if p.First != nil {
			filled++
		}
	}
	for i, p := range list {
		if filled <= keep {
			return list[:i]
		}
		if p.First != nil {
			filled--
		}
	}
	return nil // keep is at least 1
}

func dropping(old []parts.Part) string {
	var events int64
	for _, p := range old {
		events += p.Events
	}
	return fmt.Sprintf("this would drop %s with some %s", counted(len(old), "part"), counted(events, "event"))
}

func (c *eventsPruneCmd) prune(s *session, store *parts.Store, part parts.Part) (one pruned, err error) {
	one.Part = part
	if c.Archive != "" {
		if !c.JSON {
			fmt.Fprintf(s.stderr, "archiving part %d, some %s events\n", part.Number, humanize.Comma(part.Events))
		}
		if one.Archived, err = store.Archive(s.ctx, part, c.Archive); err != nil {
			return one, err
		}
	}
	return one, store.Drop(s.ctx, part, one.Archived, c.who())
}

func (c *eventsPruneCmd) print(s *session, gone []pruned) error {
	if c.JSON {
		return writeJSON(s.stdout, map[string]any{"parts": gone, "dry_run": c.DryRun})
	}
	for _, one := range gone {
		text := fmt.Sprintf("part %d was dropped", one.Number)
		switch {
		case c.DryRun:
			text = fmt.Sprintf("part %d would be dropped, some %s events", one.Number, humanize.Comma(one.Part.Events))
		case one.File != "":
			text += fmt.Sprintf("; its %s events are in %s", humanize.Comma(int64(one.Archived.Events)), one.File)
		}
		if _, err := fmt.Fprintln(s.stdout, printable(text)); err != nil {
			return err
		}
	}
	if len(gone) == 0 {
		_, err := fmt.Fprintf(s.stdout, "events fill no more than %s\n", counted(c.Keep, "part"))
		return err
	}
	return nil
}
