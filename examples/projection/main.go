package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/projection"
)

const usage = `projection keeps the tables files and file_changes in step with the events of an outbox.

  projection run [--mode outbox|shadow] [--workers 4] [--until-current]   apply what comes
  projection summary                     streams by state, and what is tried next
  projection list [--state dead]         streams
  projection requeue STREAM              give a dead stream its attempts back
  projection requeue-dead [--limit 100]  the same for many, the longest dead first
  projection gaps detect                 compare watermarks and rows with the events; status 1 if something is missing
  projection gaps repair                 replay the streams that have gaps
  projection integrity                   rebuild from scratch and compare; status 1 if something differs
  projection append PATH [--payload JSON] [--mode inline]   append an event, to play with

All take --json and --help. Settings: DATABASE_URL, NATS_URL, PROJECTION_MODE, PROJECTION_WORKERS, PROJECTION_SCHEMA.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// errFound is returned when a look found something wrong, which has been printed.
var errFound = errors.New("something is wrong")

// run is the program: it returns its exit status, 2 for what is refused.
func run(ctx context.Context, args []string, out, log io.Writer) int {
	err := execute(ctx, args, out, log)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errFound):
		return 1
	}
	fmt.Fprintln(log, "projection:", err)
	if errors.Is(err, errRefused) || errors.Is(err, projection.ErrConfig) || errors.Is(err, projection.ErrMode) {
		return 2
	}
	return 1
}

// program is one command under way.
type program struct {
	*settings

	pool *pgxpool.Pool
	p    *projection.Projection
	args []string
}

var commands = map[string]func(*program, context.Context) error{
	"run": (*program).run, "summary": (*program).summary, "list": (*program).list, "requeue": (*program).requeue,
	"requeue-dead": (*program).requeueDead, "gaps detect": (*program).detect, "gaps repair": (*program).repair,
	"integrity": (*program).integrity, "append": (*program).append,
}

// operands says how many arguments a command takes.
var operands = map[string]int{"requeue": 1, "append": 1}

func execute(ctx context.Context, args []string, out, log io.Writer) error {
	name, rest := "", args
	if len(args) > 0 {
		name, rest = args[0], args[1:]
	}
	if name == "gaps" && len(rest) > 0 {
		name, rest = name+" "+rest[0], rest[1:]
	}
	command, known := commands[name]
	switch {
	case name == "" || name == "help" || name == "--help" || name == "-h":
		fmt.Fprint(out, usage)
		return nil
	case !known:
		return fmt.Errorf("%w: unknown command %q; `projection help` lists them", errRefused, name)
	}
	s := &settings{workers: unset, out: out, log: log}
	arguments, err := parse(s.flags(name), rest)
	if err != nil {
		return err
	}
	if len(arguments) != operands[name] {
		return fmt.Errorf("%w: %s takes %d argument(s), got %d", errRefused, name, operands[name], len(arguments))
	}
	s.fromEnvironment(name)
	if err := s.validate(name); err != nil {
		return err
	}
	return s.open(ctx, name, func(p *program) error {
		p.args = arguments
		return command(p, ctx)
	})
}

// parse takes flags before and behind the arguments.
func parse(f *flag.FlagSet, args []string) (arguments []string, err error) {
	for len(args) > 0 {
		if err := f.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return nil, err
			}
			return nil, fmt.Errorf("%w: %w", errRefused, err)
		}
		if args = f.Args(); len(args) > 0 {
			arguments, args = append(arguments, args[0]), args[1:]
		}
	}
	return arguments, nil
}

func (s *settings) open(ctx context.Context, command string, use func(*program) error) error {
	config, err := pgxpool.ParseConfig(s.database)
	if err != nil {
		return fmt.Errorf("%w: --database-url cannot be read as an address", errRefused) // the error would show it, with its password
	}
	config.MaxConns = int32(max(min(s.workers, 256), 4) + 4) // a few hundred at most
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	p := &program{settings: s, pool: pool}
	configuration := s.config(command, pool)
	if command == "run" {
		return p.runWith(ctx, configuration, use)
	}
	if p.p, err = projection.New(configuration); err != nil {
		return named(err)
	}
	if command != "append" {
		var found bool
		if err := pool.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, p.p.Schema()+".projection_streams").Scan(&found); err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("there is no projection in schema %s yet: `projection run` makes it (--schema, --mode)", p.p.Schema())
		}
	}
	return use(p)
}

// named puts flags in front of the fields that projection.New complains about.
func named(err error) error {
	for _, flag := range [][2]string{
		{"Workers", "--workers"},
		{"Mode must", "--mode"},
		{"BatchEvents", "--batch"},
		{"MaxAttempts", "--max-attempts"},
		{"BackoffMax", "--backoff-max"},
		{"BackoffBase", "--backoff"},
		{"LeaseTTL", "--lease-ttl"},
		{"SweepInterval", "--sweep"},
		{": JournalSchema", "--journal-schema"},
		{"Schema", "--schema"},
	} {
		if strings.Contains(err.Error(), flag[0]) {
			return fmt.Errorf("%s: %w", flag[1], err)
		}
	}
	return err
}
