package main

import (
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/postrider/postrider/outbox/capture"
)

type adoptCmd struct {
	Create adoptCreateCmd `cmd:"" default:"withargs" help:"Begin with a table; what \"postrider adopt --table\" does."`
	List   adoptListCmd   `cmd:"" help:"List the tables that are adopted."`
	Drop   adoptDropCmd   `cmd:"" help:"End it for a table; its events stay."`
}

type adoptCreateCmd struct {
	triggerFlags
	Preset   string            `help:"Shape of the table: debezium or watermill; what --map says goes before it." placeholder:"NAME" env:"-"`
	Map      map[string]string `help:"What columns become, as COLUMN=FIELD, separated by commas; several fields with + between; COLUMN.KEY is what a JSON column has under a key. Fields: event_id, stream_id, topic, type, payload, metadata, headers, tenant_id, partition_key, occurred_at." mapsep:"," placeholder:"COLUMN=FIELD" env:"-"`
	Topic    string            `help:"Topic of rows without a column for it, or with nothing in it." env:"-"`
	Stream   string            `help:"Stream of rows without a column for it, or with nothing in it." env:"-"`
	Type     string            `help:"Type of rows without a column for it, or with nothing in it." env:"-"`
	Qualify  *bool             `help:"Put the topic before the stream's id, as in Order:17, where ids are unique within a topic only. The preset debezium does." negatable:"" env:"-"`
	Order    []string          `help:"Columns that order the rows that wait, or ctid. Without it a column with a sequence, else created_at." placeholder:"COLUMN" env:"-"`
	Where    map[string]string `help:"Only rows with these values, as COLUMN=VALUE, several values with + between." mapsep:"," placeholder:"COLUMN=VALUE" env:"-"`
	Pending  string            `help:"Column that is NULL or false in rows that wait. Without it all rows wait." placeholder:"COLUMN" env:"-"`
	Anew     bool              `help:"Append rows that wait although an event has their id: with other content, or with theirs from another source." env:"-"`
	NoImport bool              `help:"Leave the rows that are there alone." env:"-"`
	Delete   bool              `help:"Delete a row when its event is appended. Not for producers that delete rows themselves." env:"-"`
	Replace  bool              `help:"Make the trigger anew if it is there, without missing a row." env:"-"`
}

// Help explains below the flags.
func (c *adoptCreateCmd) Help() string {
	return `The application writes to its table as before. An INSERT fails only if its payload is larger than the outbox takes, has
text that UTF-8 cannot hold, or does not fit the schema of a type that is checked; once a column is dropped that its event
needs; above READ COMMITTED with 40001 if its stream got an event meanwhile; in the query of a materialized view (42501)
unless SET CONSTRAINTS ALL IMMEDIATE goes before. ATTACH PARTITION to it of a table that is adopted itself fails (42710)
unless one transaction drops that trigger and attaches. Retry 40001, and 40P01 of rows in different orders. Then lastval() asks the outbox's
sequence: use RETURNING or currval(). From now on each INSERT appends the row's event, in the same transaction; UPDATE and DELETE say
nothing. What waits is imported before, in order, while the table is locked against writers: --dry-run --json counts it, 10,000 rows take seconds.

What a message cannot have is made to fit. A name that is too long, or has control characters or spaces at its ends, is
cut, cleaned, and ends with ~ and its MD5. Of headers odd characters of names become -, those with a meaning get X- before
them, values are text in one line, and what is over 1,000 or 32 KiB is left out; what they were is kept in the event's metadata under
"unfit". Times stay within the years 1 to 9999. A row without stream or type goes by --stream and --type; without these it
goes by the table's name, and one that waits is refused.

A uuid is the event's id, another value becomes one with the table's name; if another event has that id, the row gets a new
one. So the column must be NOT NULL and unique, or the table have a primary key. A row whose event is there is left out, so
that adopting again doubles nothing. Rows are refused of which nobody can tell: those whose id has an event of another
content (ids began again, the row or --map was changed), or one with the same uuid and content from another table; --anew
appends them. So is a row of a stream whose events were dropped in part. --no-import leaves all that wait.

Debezium's table: id, aggregatetype (topic), aggregateid (stream), type, payload. Watermill's watermill_TOPIC: uuid,
created_at, payload, metadata (headers); all its messages are one stream, unless --map uuid=stream_id says otherwise.
docs/migrating.md has the way from there, from River, Sequin, and a table of your own.

The trigger runs as the table's owner, who needs USAGE on the outbox's schema and EXECUTE on outbox_append_adopted. Run
this as a superuser, or as a role that owns the table and may read events. What reads the rows runs as the owner, too.

Examples:
  postrider adopt --table outboxevent --preset debezium --order created_at --dry-run
  postrider adopt --table watermill_orders --preset watermill --type order.changed
  postrider adopt --table app.outbox --map id=event_id,customer=stream_id,kind=type,body=payload --topic shop --pending sent_at
  postrider adopt drop --table outboxevent`
}

// Run imports and makes the trigger.
func (c *adoptCreateCmd) Run(s *session) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	progress := passingLine{statusLine: newStatusLine(s.stderr)}
	o.Replace, o.Progress = c.Replace, func(done, all int64) {
		if !c.JSON {
			progress.show("imported %s of %s rows", humanize.Comma(done), humanize.Comma(all))
		}
	}
	return c.withTriggers(s, "adopt", func(store *capture.Store) error {
		done, err := store.Adopt(s.ctx, capture.Adoption{
			Table: c.Table, Preset: c.Preset, Map: c.Map, Topic: c.Topic, Stream: c.Stream, Type: c.Type, Qualify: c.Qualify,
			Order: c.Order, Where: c.Where, Pending: c.Pending, Anew: c.Anew, NoImport: c.NoImport, Delete: c.Delete,
		}, o)
		progress.clear()
		if err != nil {
			return err
		}
		return c.print(s.stdout, done, fmt.Sprintf("rows of %s append events from now on; %s of %s that waited were imported, the others had their events",
			done.Table, humanize.Comma(done.Imported), humanize.Comma(done.Waiting)))
	})
}

type adoptListCmd struct {
	databaseFlags
	JSON bool `help:"Print a JSON array." name:"json"`
}

func (c *adoptListCmd) Run(s *session) error {
	return listTriggers(s, c.databaseFlags, capture.Adopted, c.JSON)
}

type adoptDropCmd struct{ dropFlags }

func (c *adoptDropCmd) Run(s *session) error { return dropTrigger(s, c.dropFlags, capture.Adopted) }
