package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/postrider/postrider/inbox"
)

type inboxCmd struct {
	Migrate inboxMigrateCmd `cmd:"" help:"Create the tables of consumers' inboxes, in any database, or bring them up to date."`
	Dead    inboxDeadCmd    `cmd:"" help:"List a consumer's dead messages, and those that are tried again or wait."`
	Requeue inboxRequeueCmd `cmd:"" help:"Have dead messages of a consumer tried again."`
	Skip    inboxSkipCmd    `cmd:"" help:"Give a dead message up; its stream goes on."`
}

type inboxMigrateCmd struct {
	databaseFlags
	JSON bool `help:"Print one JSON object." name:"json"`
}

func (c *inboxMigrateCmd) Run(s *session) error {
	version, err := migrateInbox(s.ctx, c.databaseFlags)
	if err != nil {
		return err
	}
	return answer(s.stdout, c.JSON, map[string]any{"schema": c.Schema, "inbox_version": version}, fmt.Sprintf("schema %s holds inbox tables at version %d", c.Schema, version))
}

// migrateInbox brings the inbox tables up to date and returns their version.
func migrateInbox(ctx context.Context, f databaseFlags) (int, error) {
	if err := f.validate(); err != nil {
		return 0, err
	}
	pool, err := f.pool(ctx, "postrider inbox migrate", 1)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	if err := inbox.Migrate(ctx, pool, f.Schema); err != nil {
		return 0, err
	}
	version, _, err := inbox.Version(ctx, pool, f.Schema)
	return version, err
}

type inboxFlags struct {
	databaseFlags
	Consumer string `help:"Name of the consumer, as inbox.Config has it." required:"" placeholder:"NAME"`
}

func (f inboxFlags) open(ctx context.Context) (*inbox.Inbox, *pgxpool.Pool, error) {
	if err := f.validate(); err != nil {
		return nil, nil, err
	}
	pool, err := f.pool(ctx, "postrider inbox", 1)
	if err != nil {
		return nil, nil, err
	}
	box, err := inbox.New(pool, inbox.Config{Name: f.Consumer, Schema: f.Schema})
	if err != nil {
		pool.Close()
		return nil, nil, fmt.Errorf("%w: --consumer: %w", errRefused, err)
	}
	return box, pool, nil
}

type inboxDeadCmd struct {
	inboxFlags
	State  string `help:"Which: ${enum}." enum:"dead,failed,waiting" default:"dead" env:"-"`
	Stream string `help:"Only this stream." placeholder:"STREAM" env:"-"`
	After  int64  `help:"Only what was parked after this id." placeholder:"ID" env:"-"`
	Limit  int    `help:"At most so many, 1 to 10000." default:"100" env:"-"`
	JSON   bool   `help:"Print a JSON array." name:"json"`
}

// inboxRow is the printed form of a parked message, without its payload.
type inboxRow struct {
	ID       int64     `json:"id"`
	EventID  uuid.UUID `json:"event_id"`
	Stream   string    `json:"stream_id"`
	Version  int64     `json:"stream_version"`
	Type     string    `json:"event_type"`
	Attempts int       `json:"attempts"`
	ParkedAt time.Time `json:"parked_at"`
	DueAt    time.Time `json:"due_at,omitzero"`
	Reason   string    `json:"reason,omitempty"`
}

func (c *inboxDeadCmd) Help() string {
	return `Examples:
  postrider inbox dead --consumer billing
  postrider inbox dead --consumer billing --state failed --stream order-17 --json`
}

func (c *inboxDeadCmd) Run(s *session) error {
	box, pool, err := c.open(s.ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	state := map[string]inbox.Status{"dead": inbox.Dead, "failed": inbox.Failed, "waiting": inbox.Waiting}[c.State]
	list, err := box.Parked(s.ctx, inbox.ParkedQuery{State: state, Stream: c.Stream, After: c.After, Limit: c.Limit})
	if errors.Is(err, inbox.ErrQuery) {
		return fmt.Errorf("%w: --limit: %w", errRefused, err)
	}
	if err != nil {
		return err
	}
	rows, lines := make([]inboxRow, len(list)), make([]table.Row, len(list))
	for n, p := range list {
		rows[n] = inboxRow{p.ID, p.EventID, p.Stream, p.Version, p.Type, p.Attempts, p.ParkedAt, p.DueAt, p.Reason}
		lines[n] = table.Row{p.ID, p.EventID, p.Stream, p.Version, p.Type, p.Attempts, p.ParkedAt.Format(time.RFC3339), p.Reason}
	}
	return answerRows(s.stdout, c.JSON, rows, table.Row{"id", "event", "stream", "version", "type", "attempts", "parked", "reason"}, lines)
}

type inboxRequeueCmd struct {
	inboxFlags
	Events []uuid.UUID `arg:"" optional:"" help:"Event ids." name:"event"`
	All    bool        `help:"All dead messages of the consumer." env:"-"`
	JSON   bool        `help:"Print one JSON object." name:"json"`
}

func (c *inboxRequeueCmd) Help() string {
	return `Examples:
  postrider inbox requeue --consumer billing 018f4f0e-0000-7000-8000-000000000001
  postrider inbox requeue --consumer billing --all`
}

func (c *inboxRequeueCmd) Run(s *session) error {
	if c.All == (len(c.Events) > 0) {
		return fmt.Errorf("%w: name the events, or say --all", errRefused)
	}
	box, pool, err := c.open(s.ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	n, err := box.Requeue(s.ctx, c.Events...)
	if err != nil {
		return err
	}
	if err := answer(s.stdout, c.JSON, map[string]any{"requeued": n}, fmt.Sprintf("%d requeued", n)); err != nil {
		return err
	}
	slices.SortFunc(c.Events, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	if named := len(slices.Compact(c.Events)); n < named {
		return fmt.Errorf("%d of the %d events are no dead messages of consumer %s", named-n, named, c.Consumer)
	}
	return nil
}

type inboxSkipCmd struct {
	inboxFlags
	Event uuid.UUID `arg:"" help:"Event id."`
	Note  string    `help:"Why; it is kept." required:"" placeholder:"TEXT"`
	JSON  bool      `help:"Print one JSON object." name:"json"`
}

func (c *inboxSkipCmd) Help() string {
	return `Example:
  postrider inbox skip --consumer billing 018f4f0e-0000-7000-8000-000000000001 --note 'sent twice by hand'`
}

func (c *inboxSkipCmd) Run(s *session) error {
	box, pool, err := c.open(s.ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := box.Skip(s.ctx, c.Event, c.Note); err != nil {
		return err
	}
	return answer(s.stdout, c.JSON, map[string]any{"skipped": c.Event}, fmt.Sprintf("%s skipped", c.Event))
}
