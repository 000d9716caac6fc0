package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"
)

const usage = `Usage: remotecall COMMAND [FLAGS]

  demo                          three banks, some transfers, and whether the money adds up
  caller                        deliver the calls of this database
  receiver                      be a bank that receives
  target NAME URL               say where a target is; its token is in REMOTECALL_TOKEN
  transfer TARGET ACCOUNT AMOUNT
  cancel CALL                   take a transfer back that was not sent
  status                        what waits, and why
  requeue [CALL]                try dead callbacks again: of one call, or all

DATABASE_URL and NATS_URL say where PostgreSQL and NATS are. remotecall COMMAND -h shows the flags.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "remotecall:", err)
		os.Exit(1)
	}
}

// program is what all commands need.
type program struct {
	flags  *flag.FlagSet
	args   []string
	stdout io.Writer
	log    *slog.Logger
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	commands := map[string]func(context.Context, program) error{
		"demo": demo, "caller": runCaller, "receiver": runReceiver, "target": runTarget, "transfer": runTransfer,
		"cancel": runCancel, "status": runStatus, "requeue": runRequeue,
	}
	if len(args) == 1 && slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		fmt.Fprint(stdout, usage)
		return nil
	}
	if len(args) == 0 || commands[args[0]] == nil {
		fmt.Fprint(stderr, usage)
		return errors.New("name a command")
	}
	p := program{flags: flag.NewFlagSet(args[0], flag.ContinueOnError), args: args[1:], stdout: stdout}
	p.flags.SetOutput(stderr)
	p.log = slog.New(slog.NewTextHandler(stderr, nil))
	return commands[args[0]](ctx, p)
}

// open connects to the database that DATABASE_URL names; schema comes first in the search path unless it is empty.
func open(ctx context.Context, schema string) (*pgxpool.Pool, error) {
	url := os.Getenv("DATABASE_URL")
	if url == "" {
		return nil, errors.New("DATABASE_URL is not set; postrider dev prints one")
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("DATABASE_URL cannot be read as an address") // the error would show it, with its password
	}
	config.MaxConns = 16
	if schema != "" {
		config.ConnConfig.RuntimeParams["search_path"] = schema
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// with parses the flags, checks the number of arguments and opens the sender's database.
func (p program) with(ctx context.Context, least, most int, work func(pool *pgxpool.Pool, args []string) error) error {
	if err := p.flags.Parse(p.args); err != nil {
		return err
	}
	if n := p.flags.NArg(); n < least || n > most {
		return fmt.Errorf("%s: %d arguments given, see remotecall without arguments", p.flags.Name(), n)
	}
	pool, err := open(ctx, "")
	if err != nil {
		return err
	}
	defer pool.Close()
	for _, prepare := range []error{prepareSender(ctx, pool), openAccounts(ctx, pool, 1_000_000, "home")} {
		if prepare != nil {
			return prepare
		}
	}
	return work(pool, p.flags.Args())
}

func runTarget(ctx context.Context, p program) error {
	return p.with(ctx, 2, 2, func(pool *pgxpool.Pool, args []string) error {
		token := os.Getenv("REMOTECALL_TOKEN")
		if token == "" {
			return errors.New("REMOTECALL_TOKEN is not set: the token that the target knows this sender by")
		}
		return setTarget(ctx, pool, args[0], args[1], token)
	})
}

func runTransfer(ctx context.Context, p program) error {
	return p.with(ctx, 3, 3, func(pool *pgxpool.Pool, args []string) error {
		amount, err := strconv.ParseInt(args[2], 10, 64)
		if err != nil || amount < 1 {
			return fmt.Errorf("AMOUNT must be a whole number of at least 1, got %q", args[2])
		}
		s, err := newSender()
		if err != nil {
			return err
		}
		id, err := transfer(ctx, pool, s, "home", args[0], deposit{Account: args[1], Amount: amount})
		if err != nil {
			return err
		}
		fmt.Fprintln(p.stdout, "call", id)
		return nil
	})
}

func runCancel(ctx context.Context, p program) error {
	return p.with(ctx, 1, 1, func(pool *pgxpool.Pool, args []string) error {
		id, err := callID(args[0])
		if err != nil {
			return err
		}
		return cancelTransfer(ctx, pool, id)
	})
}

func runRequeue(ctx context.Context, p program) error {
	return p.with(ctx, 0, 1, func(pool *pgxpool.Pool, args []string) error {
		var id int64
		if len(args) == 1 {
			var err error
			if id, err = callID(args[0]); err != nil {
				return err
			}
		}
		n, err := requeue(ctx, pool, id)
		if err != nil {
			return err
		}
		fmt.Fprintln(p.stdout, n, "callbacks are due again")
		return nil
	})
}

func runStatus(ctx context.Context, p program) error {
	asJSON := p.flags.Bool("json", false, "print JSON")
	return p.with(ctx, 0, 0, func(pool *pgxpool.Pool, _ []string) error {
		list, err := status(ctx, pool)
		if err != nil {
			return err
		}
		return printStatus(p.stdout, list, *asJSON)
	})
}

func callID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, fmt.Errorf("CALL must be a whole number of at least 1, got %q", text)
	}
	return id, nil
}
