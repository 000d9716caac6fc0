package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/projection"
)

// errRefused marks wrong flags and settings: status 2.
var errRefused = errors.New("refused")

// settings are flags, which win over the environment, which wins over the defaults.
type settings struct {
	database, nats, mode, schema, journal, stream, filter, metrics string

	workers, batch, attempts int
	base, longest, lease     time.Duration
	sweep                    time.Duration
	noRepair, json, verbose  bool
	lenient                  bool

	// of single commands
	state, kind, payload  string
	limit                 int
	grace                 time.Duration
	rewrite, untilCurrent bool

	out, log io.Writer
}

// unset is the number of workers where none was given.
const unset = -1

func (s *settings) flags(command string) *flag.FlagSet {
	f := flag.NewFlagSet("projection "+command, flag.ContinueOnError)
	f.SetOutput(s.log)
	f.StringVar(&s.database, "database-url", "", "PostgreSQL with the events and the projection (env DATABASE_URL)")
	f.StringVar(&s.schema, "schema", env("PROJECTION_SCHEMA", "files"), "schema of the projection (env PROJECTION_SCHEMA)")
	f.StringVar(&s.journal, "journal-schema", env("PROJECTION_JOURNAL_SCHEMA", "public"),
		"schema of the events (env PROJECTION_JOURNAL_SCHEMA)")
	f.StringVar(&s.mode, "mode", env("PROJECTION_MODE", "outbox"), "inline, outbox or shadow (env PROJECTION_MODE)")
	f.BoolVar(&s.lenient, "lenient", os.Getenv("PROJECTION_LENIENT") == "1", "pass over events that make no sense (env PROJECTION_LENIENT=1)")
	f.BoolVar(&s.json, "json", false, "print JSON")
	f.BoolVar(&s.verbose, "verbose", false, "log more")
	switch command {
	case "run":
		f.StringVar(&s.nats, "nats-url", "", "NATS with the stream; without it news are found every --sweep (env NATS_URL)")
		f.IntVar(&s.workers, "workers", unset, "streams applied at the same time: 1 to 256 (env PROJECTION_WORKERS; default 4, in mode inline 0)")
		f.StringVar(&s.stream, "stream", "EVENTS", "JetStream stream")
		f.StringVar(&s.filter, "filter", "events.>", "subjects to listen to")
		f.IntVar(&s.batch, "batch", 100, "events of one stream in one transaction: 1 to 10000")
		f.IntVar(&s.attempts, "max-attempts", 8, "failures after which an event is dead: 1 to 1000")
		f.DurationVar(&s.base, "backoff", time.Second, "wait after the first failure; doubles with each")
		f.DurationVar(&s.longest, "backoff-max", 5*time.Minute, "longest wait")
		f.DurationVar(&s.lease, "lease-ttl", 30*time.Second, "how long the streams of a dead process wait: 100ms to 1h")
		f.DurationVar(&s.sweep, "sweep", time.Minute, "time between two looks at all streams: 10ms to 24h")
		f.BoolVar(&s.noRepair, "no-repair", false, "leave gaps that are found at start to `gaps repair`")
		f.BoolVar(&s.untilCurrent, "until-current", false, "end when everything was applied; status 1 if something is dead")
		f.StringVar(&s.metrics, "metrics-addr", "", "address for Prometheus, for example 127.0.0.1:9464")
	case "list":
		f.StringVar(&s.state, "state", "", "only streams that are current, pending, processing, failed or dead")
		f.IntVar(&s.limit, "limit", 50, "most streams to list: 1 or more")
	case "requeue-dead":
		f.IntVar(&s.limit, "limit", 100, "most streams to requeue: 1 or more")
	case "gaps detect":
		f.DurationVar(&s.grace, "grace", projection.Grace, "events younger than this may still be under way")
	case "gaps repair":
		f.DurationVar(&s.grace, "grace", projection.Grace, "events younger than this may still be under way")
		f.BoolVar(&s.rewrite, "rewrite", false, "also where the journal is another one than was applied: the journal is right")
	case "append":
		f.StringVar(&s.kind, "type", "file.modified", "type of the event")
		f.StringVar(&s.payload, "payload", "", "payload; by default a change of the file's content")
		f.StringVar(&s.nats, "nats-url", "", "NATS, to ring the workers' doorbell (env NATS_URL)")
	}
	return f
}

func env(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// fromEnvironment fills in addresses. As defaults of flags the help would show them, passwords included.
func (s *settings) fromEnvironment(command string) {
	if s.database == "" {
		s.database = os.Getenv("DATABASE_URL")
	}
	if s.nats == "" && (command == "run" || command == "append") {
		s.nats = os.Getenv("NATS_URL")
	}
}

// validate refuses what projection.New cannot know.
func (s *settings) validate(command string) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{errRefused}, args...)...)
	}
	switch {
	case s.database == "":
		return refuse("--database-url or DATABASE_URL is needed; `postrider dev` prints one")
	case s.limit < 1 && (command == "list" || command == "requeue-dead"):
		return refuse("--limit must be at least 1, got %d", s.limit)
	case s.grace < 0:
		return refuse("--grace must not be negative, got %s", s.grace)
	}
	if s.workers == unset && command == "run" {
		if text := os.Getenv("PROJECTION_WORKERS"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil {
				return refuse("PROJECTION_WORKERS must be a number, got %q", text)
			}
			s.workers = n
		}
	}
	known := s.state == ""
	for _, state := range projection.States() {
		known = known || s.state == string(state)
	}
	if !known {
		return refuse("--state must be one of %v, got %q", projection.States(), s.state)
	}
	return nil
}

// config makes a configuration. Commands that only look or mend run no workers, but ask as if they did.
func (s *settings) config(command string, pool *pgxpool.Pool) projection.Config {
	level := slog.LevelInfo
	if command != "run" && !s.verbose {
		level = slog.LevelError
	}
	if s.verbose {
		level = slog.LevelDebug
	}
	workers := s.workers
	switch {
	case s.mode == string(projection.Inline) && workers == unset:
		workers = 0
	case command != "run" && s.mode != string(projection.Inline):
		workers = 1
	case workers == unset:
		workers = 4
	}
	return projection.Config{
		Projector: files{lenient: s.lenient}, Pool: pool, Schema: s.schema, JournalSchema: s.journal,
		Mode: projection.Mode(s.mode), Workers: workers,
		Stream: s.stream, Filter: s.filter, BatchEvents: s.batch, MaxAttempts: s.attempts, BackoffBase: s.base, BackoffMax: s.longest,
		LeaseTTL: s.lease, SweepInterval: s.sweep, NoRepair: s.noRepair,
		Logger: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: level})),
	}
}
