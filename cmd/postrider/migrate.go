package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/postrider/postrider/outbox/schema"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Create the tables, or bring them up to date."`
	Down   migrateDownCmd   `cmd:"" help:"Remove the tables and everything in them."`
	Status migrateStatusCmd `cmd:"" help:"Show which migrations are applied."`
	Print  migratePrintCmd  `cmd:"" help:"Print the SQL, for psql or another migration tool."`
}

type migrateUpCmd struct {
	databaseFlags
	Partitions      int    `help:"Number of partitions, which only a resize changes: 1 to 32767. 0: 64 in a new schema, what is stored in an existing one." default:"0"`
	EventsRelation  string `help:"Table or view that everybody reads events from, as name or schema.name; stored. Without it what is stored, in a new schema events." placeholder:"NAME"`
	Stream          string `help:"JetStream stream that holds the events; stored, while no worker lives. Without it what is stored." placeholder:"NAME" env:"-"`
	Subject         string `help:"Template of their subjects; stored, while no worker lives. Without it what is stored." placeholder:"TEMPLATE" env:"-"`
	ControlPrefix   string `help:"What the subjects of control messages begin with, outside of the events'; stored, before the first worker starts. Without it what is stored, in a new schema outbox.fence." placeholder:"SUBJECT"`
	OthersMayCreate bool   `help:"Migrate although others may create functions in the schema, as everybody may in public where the cluster comes from PostgreSQL 14."`
	Inbox           bool   `help:"Create the tables of consumers' inboxes, too."`
	JSON            bool   `help:"Print one JSON object." name:"json"`
}

// migrator completes config by the flags.
func migrator(f databaseFlags, log *slog.Logger, config schema.Config) (*schema.Migrator, error) {
	if err := f.validate(); err != nil {
		return nil, err
	}
	config.DatabaseURL, config.Schema, config.Logger = f.DatabaseURL, f.Schema, log
	m, err := schema.New(config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRefused, err)
	}
	return m, nil
}

func (c *migrateUpCmd) Run(s *session) error {
	m, err := migrator(c.databaseFlags, s.logger(), schema.Config{
		Partitions: c.Partitions, Events: c.EventsRelation, Stream: c.Stream, Subject: c.Subject, ControlPrefix: c.ControlPrefix, OthersMayCreate: c.OthersMayCreate,
	})
	if err != nil {
		return err
	}
	if err := m.Up(s.ctx); err != nil {
		return named(err)
	}
	pool, info, err := c.outbox(s.ctx, "postrider migrate", 1)
	if err != nil {
		return err
	}
	pool.Close()
	var to streamFlags
	to.complete(info)
	body := map[string]any{
		"schema": c.Schema, "version": info.Version, "partitions": info.Partitions, "events_relation": info.Events, "stream": to.Stream, "subject": to.Subject,
		"control_prefix": info.ControlPrefix,
	}
	if c.Inbox {
		if body["inbox_version"], err = migrateInbox(s.ctx, c.databaseFlags); err != nil {
			return err
		}
	}
	elsewhere := ""
	if info.Stream != "" || info.Subject != "" {
		elsewhere = fmt.Sprintf(", stream %s with subjects %s", to.Stream, to.Subject)
	}
	if info.Events != schema.DefaultEvents {
		elsewhere += " and events in " + info.Events
	}
	return answer(s.stdout, c.JSON, body, fmt.Sprintf("schema %s is at version %d with %d partitions%s", c.Schema, info.Version, info.Partitions, elsewhere))
}

type migrateDownCmd struct {
	databaseFlags
	Yes   bool `help:"Confirm that all events may be removed." env:"-"`
	Force bool `help:"Remove events that were not published, too." env:"-"`
}

func (c *migrateDownCmd) Run(s *session) error {
	m, err := migrator(c.databaseFlags, s.logger(), schema.Config{Force: c.Force})
	if err != nil {
		return err
	}
	if !c.Yes {
		return fmt.Errorf("%w: this removes every event in schema %s, published ones too; say --yes if that is meant", errRefused, c.Schema)
	}
	switch err := m.Down(s.ctx); {
	case errors.Is(err, schema.ErrUnpublished):
		return fmt.Errorf("%w: say --force if they shall go, too", err)
	case err != nil:
		return named(err)
	}
	_, err = fmt.Fprintf(s.stdout, "schema %s holds no outbox any more\n", c.Schema)
	return err
}

type migrateStatusCmd struct {
	databaseFlags
	JSON bool `help:"Print a JSON array." name:"json"`
}

func (c *migrateStatusCmd) Run(s *session) error {
	m, err := migrator(c.databaseFlags, s.logger(), schema.Config{})
	if err != nil {
		return err
	}
	list, err := m.Status(s.ctx)
	if err != nil {
		return named(err)
	}
	var rows []table.Row
	for _, one := range list {
		applied := "pending"
		if !one.AppliedAt.IsZero() {
			applied = one.AppliedAt.Format(time.RFC3339)
		}
		rows = append(rows, table.Row{one.Version, one.Name, applied})
	}
	return answerRows(s.stdout, c.JSON, list, table.Row{"version", "migration", "applied"}, rows)
}

type migratePrintCmd struct {
	Direction  string `arg:"" optional:"" help:"${enum}." enum:"up,down" default:"up"`
	Schema     string `help:"Schema of the outbox's tables." default:"public"`
	Partitions int    `help:"Number of partitions." default:"64"`
}

func (c *migratePrintCmd) Run(s *session) error {
	m, err := schema.New(schema.Config{Schema: c.Schema, Partitions: c.Partitions})
	if err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return m.Print(s.stdout, schema.Direction(c.Direction))
}
