package schema

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// The values of an empty Config.
const (
	DefaultSchema                     = "public"
	DefaultPartitions partition.Count = 64
)

// ErrConfig is returned for a Config that breaks a rule; the text names the field.
var ErrConfig = errors.New("schema config")

// Config has the settings of a Migrator.
type Config struct {
	// DatabaseURL is a connection string in any form that pgx understands; its
	// role must be allowed to create tables. Needed by Up, Down and Status.
	DatabaseURL string
	// Schema is the PostgreSQL schema, created when missing. Must match ^[A-Za-z_][A-Za-z0-9_]{0,62}$; case counts. Defaults to "public".
	Schema string
	// Partitions is the partition count, 1..32767, fixed by the first Up. 0 means 64 for a new schema and the stored count for an existing
	// one; any other value must equal the stored one.
	Partitions int
	// Events is the table or view with the events, as "name", in Schema, or "schema.name". Up stores it, and refuses another one than the
	// stored one while a worker lives; Check compares it. Empty means the stored one, which is "events" in a new schema.
	Events string
	// Stream is the JetStream stream of the events: 1 to 255 characters, none of them white space or one of . * > / \. Subject is the
	// template of their subjects, at most 500 characters: tokens of A-Z a-z 0-9 _ - or one field {topic} {type} {partition} {stream}
	// {tenant}, separated by dots, the first one fixed. Up stores them, and refuses changes while a worker lives; Check compares them. Empty
	// means the stored ones; a new schema has none: there the workers' settings count.
	Stream, Subject string
	// ControlPrefix begins the subjects of control messages: 1 to 100 characters, tokens of A-Z a-z 0-9 _ - separated by dots, outside of the
	// events' subjects. Up stores it, and refuses a change once a worker has started. Empty means the stored one, which is "outbox.fence" in
	// a new schema.
	ControlPrefix string
	// OthersMayCreate lets Up migrate a schema where roles besides the owner may create functions, which calls may take for ours.
	OthersMayCreate bool
	// Force lets Down remove rows that are not published yet.
	Force bool
	// Logger receives one line per applied migration. Defaults to discarding.
	Logger *slog.Logger
}

// Validate refuses a wrong value and names its field.
func (c Config) Validate() error {
	if c.Schema != "" {
		if err := pg.CheckSchema(c.Schema); err != nil {
			return fmt.Errorf("%w: Schema: %w", ErrConfig, err)
		}
	}
	if c.Partitions != 0 {
		if err := partition.Count(c.Partitions).Validate(); err != nil {
			return fmt.Errorf("%w: Partitions: %w", ErrConfig, err)
		}
	}
	if c.Events != "" {
		if err := pg.CheckRelation(c.Events); err != nil {
			return fmt.Errorf("%w: Events: %w", ErrConfig, err)
		}
	}
	if c.Stream != "" && !streamName.MatchString(c.Stream) {
		return fmt.Errorf("%w: Stream: must be 1 to 255 characters without blanks, '.', '*', '>' and slashes, got %q", ErrConfig, c.Stream)
	}
	if c.Subject != "" && (len(c.Subject) > 500 || !subjectTemplate.MatchString(c.Subject)) {
		return fmt.Errorf("%w: Subject: must be at most 500 characters, tokens of letters, digits, _ and - or one field, separated by dots, the first one fixed, got %q",
			ErrConfig, c.Subject)
	}
	if strings.HasPrefix(c.ControlPrefix+".", "_INBOX.") {
		return fmt.Errorf("%w: ControlPrefix: a stream of %s.> would store every answer of NATS; begin it otherwise", ErrConfig, c.ControlPrefix)
	}
	if c.ControlPrefix != "" && (len(c.ControlPrefix) > 100 || !controlPrefix.MatchString(c.ControlPrefix)) {
		return fmt.Errorf("%w: ControlPrefix: must be 1 to 100 characters, tokens of letters, digits, _ and - separated by dots, got %q", ErrConfig, c.ControlPrefix)
	}
	return nil
}

var (
	controlPrefix   = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
	streamName      = regexp.MustCompile(`^[^\s.*>/\\]{1,255}$`)
	subjectTemplate = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.([A-Za-z0-9_-]+|\{(topic|type|partition|stream|tenant)\}))*$`)
)

func (c Config) withDefaults() Config {
	c.Schema = cmp.Or(c.Schema, DefaultSchema)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}
