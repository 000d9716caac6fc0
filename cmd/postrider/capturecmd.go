package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/postrider/postrider/outbox/capture"
)

type captureCmd struct {
	Create captureCreateCmd `cmd:"" default:"withargs" help:"Begin with a table; what \"postrider capture --table\" does."`
	List   captureListCmd   `cmd:"" help:"List the tables that are captured."`
	Drop   captureDropCmd   `cmd:"" help:"End it for a table; its events stay."`
	Export captureExportCmd `cmd:"" help:"Print all captures as a file for apply."`
	Apply  captureApplyCmd  `cmd:"" help:"Make the captures what a file says."`
}

func (c *captureCmd) Help() string {
	return `Without a command it is create, whose flags are in: postrider capture create --help

Examples:
  postrider capture --table orders --dry-run
  postrider capture list`
}

// triggerFlags are shared by all commands that make or end triggers.
type triggerFlags struct {
	databaseFlags
	Table       string        `help:"The table, as schema.name, or name in schema public; in double quotes where that may mean two." required:"" placeholder:"NAME" env:"-"`
	LockTimeout time.Duration `help:"How long to wait for transactions that write to the table; other writers wait behind. 1 ms to 596 h." default:"5s" env:"-"`
	Publication string        `help:"Take the table out of this publication, which another relay reads, in the same transaction; drop puts back what of it was published." placeholder:"NAME" env:"-"`
	DryRun      bool          `help:"Print the SQL, and change nothing." env:"-"`
	JSON        bool          `help:"Print one JSON object." name:"json"`
}

// options refuses an invalid limit.
func (f triggerFlags) options() (capture.Options, error) {
	if f.LockTimeout < time.Millisecond || f.LockTimeout > math.MaxInt32*time.Millisecond {
		return capture.Options{}, fmt.Errorf("%w: --lock-timeout must lie between 1ms and 596h, got %s", errRefused, f.LockTimeout)
	}
	return capture.Options{DryRun: f.DryRun, LockTimeout: f.LockTimeout, Publication: f.Publication}, f.validate()
}

// withTriggers opens the store and runs do with it.
func (f databaseFlags) withTriggers(s *session, name string, do func(*capture.Store) error) error {
	if err := f.validate(); err != nil {
		return err
	}
	pool, err := f.pool(s.ctx, "postrider "+name, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := capture.New(pool, f.Schema)
	if err != nil {
		return err
	}
	if err = do(store); errors.Is(err, capture.ErrInput) {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return err
}

// triggerBody is the JSON form of an act on a trigger.
type triggerBody struct {
	Table    string `json:"table"`
	DryRun   bool   `json:"dry_run"`
	Waiting  int64  `json:"waiting"`
	Imported int64  `json:"imported"`
	// Changes are the settings that --replace changes.
	Changes []capture.SettingChange `json:"changes,omitempty"`
	SQL     []string                `json:"sql"`
}

// print shows the act, done or planned.
func (f triggerFlags) print(out io.Writer, done capture.Done, text string) error {
	if f.DryRun {
		text = "BEGIN;\n" + strings.Join(done.SQL, ";\n") + ";\nCOMMIT;"
	}
	return answer(out, f.JSON, triggerBody{Table: done.Table, DryRun: f.DryRun, Waiting: done.Waiting, Imported: done.Imported, Changes: done.Changes, SQL: done.SQL}, text)
}

type captureCreateCmd struct {
	triggerFlags
	Key        []string `help:"Columns that name the row's stream, separated by commas; they may not be NULL. Without it the primary key." placeholder:"COLUMN" env:"-"`
	Columns    []string `help:"Only these columns. Without it all, and those that the table gets later." placeholder:"COLUMN" env:"-"`
	Exclude    []string `help:"All but these columns." placeholder:"COLUMN" env:"-"`
	AllColumns bool     `help:"With --replace: all columns again." env:"-"`
	Operations []string `help:"Which of insert, update and delete are told. Without it all." placeholder:"OPERATION" env:"-"`
	Topic      string   `help:"Topic of the events. Without it the table's name." env:"-"`
	Type       string   `help:"Template of the events' type; operation is inserted, updated or deleted. Without it {table}.{operation}." env:"-"`
	Old        *bool    `help:"Tell with an update how the row was before." negatable:"" env:"-"`
	Replace    bool     `help:"Change the settings that are given of a capture that is there; no change of a row is missed." env:"-"`
	Yes        bool     `help:"Confirm what --replace changes; without it that is printed." env:"-"`
	Backfill   bool     `help:"Tell the rows that are there, too; started again it goes on." env:"-"`
}

// Help explains below the flags.
func (c *captureCreateCmd) Help() string {
	return `From then on each INSERT, UPDATE and DELETE of a row appends an event, in the transaction that does it: in order,
once, and not if it rolls back. The event of public.orders' row 17 is orders.inserted {"new": {…}}, orders.updated
{"new": {…}} or orders.deleted {"old": {…}} of the stream public.orders:17. An update that changes no captured column
has none; one that changes the key is a delete and an insert, and where a deferrable constraint lets another row have the
key that it leaves, that row is told as updated. TRUNCATE is refused while deletions are told.

What fails for the application: TRUNCATE; lastval(), which asks the outbox's sequence then (use RETURNING or currval());
a row that is too large for an event, has text that UTF-8 cannot hold, or does not fit the schema of a type that is
checked, or has a type with a cast to json (in a key, text) of its own that fails under search_path = pg_catalog; above
READ COMMITTED, with 40001, a row whose stream got an event meanwhile; with 40P01 rows of one stream in different orders;
REFRESH or CREATE MATERIALIZED VIEW of a query that writes to the table (42501; not behind SET CONSTRAINTS ALL IMMEDIATE
in one transaction); ATTACH PARTITION to it of a table that is captured itself (42710; not where one transaction drops
that trigger and attaches); any write once a column of the key is dropped, and, with --columns or --exclude, once a table
restored from a dump has columns of other names. A key that is no stream's name is made one, which ends with ~ and its
MD5. A renamed column stays chosen or left out.
Nothing is told of a table's children by INHERITS, nor while the trigger is disabled: "capture list" and "doctor" name
these, but for session_replication_role.

--backfill tells the rows that are there, as orders.read {"new": {…}}, in pages in the order of the key, each before its
later changes; a row that changes meanwhile is told by its change. It goes on where it was killed, keeps writers of a page
waiting for some 0.1 s, wants a key that is unique, and is run by the table's owner, who may read events. With --replace
it begins anew. Writers see no error for it.

The trigger runs as the table's owner, who needs USAGE on the outbox's schema and EXECUTE on outbox_append_bytes;
those who write to the table need nothing more. Run this as the table's owner, or as a superuser.

Examples:
  postrider capture --table orders --dry-run
  postrider capture --table shop.orders --exclude card_number --old
  postrider capture --table shop.orders --backfill
  postrider capture --table shop.orders --replace --topic orders --yes
  postrider capture --table shop.lines --key order_id,line --operations insert,delete --topic shop
  postrider capture list
  postrider capture drop --table shop.orders`
}

// Run makes the trigger.
func (c *captureCreateCmd) Run(s *session) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	if !c.Replace && (c.AllColumns || c.Yes) {
		return fmt.Errorf("%w: --all-columns and --yes go with --replace", errRefused)
	}
	progress := passingLine{statusLine: newStatusLine(s.stderr)}
	o.Replace, o.Confirmed, o.Backfill = c.Replace, c.Yes, c.Backfill
	o.Progress = func(read, told int64) {
		if !c.JSON {
			progress.show("read %s rows that were there, told %s", humanize.Comma(read), humanize.Comma(told))
		}
	}
	return c.withTriggers(s, "capture", func(store *capture.Store) error {
		done, err := store.Capture(s.ctx, capture.Capture{
			Table: c.Table, Key: c.Key, Columns: c.Columns, Exclude: c.Exclude, Operations: c.Operations, Topic: c.Topic, Type: c.Type,
			Old: c.Old != nil && *c.Old, NoOld: c.Old != nil && !*c.Old, AllColumns: c.AllColumns,
		}, o)
		progress.clear()
		if err != nil {
			return err
		}
		if !c.JSON {
			for _, one := range done.Changes {
				fmt.Fprintln(s.stderr, printable(fmt.Sprintf("%s: %s -> %s", one.Setting, one.Before, one.After)))
			}
		}
		text := "changes of " + done.Table + " append events from now on"
		if c.Backfill {
			text += fmt.Sprintf("; of %s rows that were there %s were told, the others by their changes", humanize.Comma(done.Waiting), humanize.Comma(done.Imported))
		}
		return c.print(s.stdout, done, text)
	})
}

type captureListCmd struct {
	databaseFlags
	JSON bool `help:"Print a JSON array." name:"json"`
}

func (c *captureListCmd) Run(s *session) error {
	return listTriggers(s, c.databaseFlags, capture.Captured, c.JSON)
}

// capturesFile is the file that export writes and apply reads.
type capturesFile struct{ Captures map[string]capture.Capture }

type captureExportCmd struct{ databaseFlags }

// Run prints the captures.
func (c *captureExportCmd) Run(s *session) error {
	return c.withTriggers(s, "capture export", func(store *capture.Store) error {
		list, err := store.Captures(s.ctx)
		if err != nil {
			return err
		}
		file := capturesFile{map[string]capture.Capture{}}
		for _, one := range list {
			file.Captures[one.Table] = one
		}
		return export(s, file)
	})
}

type captureApplyCmd struct {
	databaseFlags
	applyFlags
	LockTimeout time.Duration `help:"How long to wait for transactions that write to a table; other writers wait behind. 1 ms to 596 h." default:"5s" env:"-"`
}

// Help explains below the flags.
func (c *captureApplyCmd) Help() string {
	return applyHelp("capture", `  captures:
    public.orders: {}
    shop.lines:
      key: [order_id, line]
      exclude: [card_number]   # or columns
      operations: [insert, delete]
      topic: shop
      type: line.{operation}
      old: true

Every change needs --yes: it makes public what was not, or ends that. Writers of the tables that change wait until the last
is done. A table stays out of the publication that it left; one that is dropped goes back.`)
}

// Run makes the captures equal those of the file.
func (c *captureApplyCmd) Run(s *session) error {
	o, err := triggerFlags{databaseFlags: c.databaseFlags, LockTimeout: c.LockTimeout, DryRun: c.DryRun}.options()
	if err != nil {
		return err
	}
	var file capturesFile
	if err := readEntries(c.File, &file); err != nil {
		return err
	}
	if file.Captures == nil {
		return fmt.Errorf("%w: FILE: %s must have captures:, and below that the tables by their names, or {}", errRefused, c.File)
	}
	var list []capture.Capture
	for _, name := range slices.Sorted(maps.Keys(file.Captures)) {
		one := file.Captures[name]
		one.Table = name
		list = append(list, one)
	}
	o.Prune, o.Confirmed = c.Prune, c.Yes
	return c.withTriggers(s, "capture apply", func(store *capture.Store) error {
		done, err := store.Apply(s.ctx, list, o)
		var all []difference
		for _, one := range done {
			all = append(all, difference{one.Table, one.Action, one.Changes, one.SQL})
		}
		return c.tell(s, all, err)
	})
}

// dropFlags are shared by all commands that end triggers.
type dropFlags struct {
	triggerFlags
	LeavePublication bool `help:"Leave the table out of the publication that it left." env:"-"`
}

type captureDropCmd struct{ dropFlags }

func (c *captureDropCmd) Run(s *session) error {
	return dropTrigger(s, c.dropFlags, capture.Captured)
}

// triggerRow is the JSON form of a trigger.
type triggerRow struct {
	Table    string          `json:"table"`
	Function string          `json:"function"`
	RunsAs   string          `json:"runs_as"`
	Enabled  bool            `json:"enabled"`
	Settings json.RawMessage `json:"settings,omitempty"`
	Flaws    []capture.Flaw  `json:"faults"`
}

func listTriggers(s *session, f databaseFlags, kind capture.Purpose, asJSON bool) error {
	return f.withTriggers(s, string(kind)+" list", func(store *capture.Store) error {
		list, err := store.List(s.ctx)
		if err != nil {
			return err
		}
		found, rows := []triggerRow{}, []table.Row{}
		for _, t := range list {
			if t.Purpose != kind {
				continue
			}
			found = append(found, triggerRow{t.Table, t.Function, t.Owner, t.Enabled, t.Settings, append([]capture.Flaw{}, t.Flaws...)})
			fault := ""
			if len(t.Flaws) > 0 {
				fault = t.Flaws[0].String()
			}
			rows = append(rows, table.Row{t.Table, t.Owner, t.Enabled, string(t.Settings), fault})
		}
		return answerRows(s.stdout, asJSON, found, table.Row{"table", "runs as", "enabled", "settings", "faults"}, rows)
	})
}

func dropTrigger(s *session, f dropFlags, kind capture.Purpose) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	o.LeavePublication = f.LeavePublication
	return f.withTriggers(s, string(kind)+" drop", func(store *capture.Store) error {
		done, err := store.Drop(s.ctx, kind, f.Table, o)
		if err != nil {
			return err
		}
		return f.print(s.stdout, done, done.Table+" appends no events any more")
	})
}

// captureFinding reports tables whose changes are missed, or whose writes fail.
func captureFinding(ctx context.Context, pool *pgxpool.Pool, schema string) finding {
	const check = "captured tables"
	store, err := capture.New(pool, schema)
	if err != nil {
		return finding{check, levelError, redact(err.Error())}
	}
	list, err := store.List(ctx)
	if err != nil {
		return finding{check, levelError, redact(err.Error())}
	}
	var wrong []string
	for _, t := range list {
		for _, f := range t.Flaws {
			wrong = append(wrong, t.Table+": "+f.String())
		}
	}
	if len(wrong) > 0 {
		return finding{check, levelError, strings.Join(wrong, "; ")}
	}
	return finding{check, levelOK, fmt.Sprintf("%d, each with triggers that fire", len(list))}
}
