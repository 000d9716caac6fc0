package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "inboxtest:", err)
		os.Exit(1)
	}
}

var errFailed = errors.New("the consumer does not keep what the inbox promises")

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("inboxtest", flag.ContinueOnError)
	flags.SetOutput(out)
	database := flags.String("database", "", "`URL` of a PostgreSQL database for the test; DATABASE_URL without")
	only := flags.String("only", "", "scenes to play, separated by commas; all without")
	as := flags.String("consumer", "", "be this consumer instead: package, functions, or one that is broken")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	if *database == "" { // help shows defaults, and this may hold a password
		*database = os.Getenv("DATABASE_URL")
	}
	if *as != "" {
		return consume(ctx, *as, *database, os.Getenv("INBOX_CONSUMER"), in, out)
	}
	if flags.NArg() == 0 || *database == "" {
		return errors.New("the database and the command of the consumer are needed: inboxtest -database URL COMMAND…")
	}
	names := slices.Sorted(maps.Keys(scenes))
	if *only != "" {
		names = strings.Split(*only, ",")
	}
	failed, err := judge(ctx, *database, names, flags.Args(), out)
	if err == nil && len(failed) > 0 {
		err = errFailed
	}
	return err
}

// judge plays scenes and returns those that failed, each with why.
func judge(ctx context.Context, database string, names, command []string, out io.Writer) (failed map[string]error, err error) {
	stage, err := newStage(ctx, database)
	if err != nil {
		return nil, err
	}
	defer stage.pool.Close()
	failed = map[string]error{}
	for _, name := range names {
		if scenes[name] == nil {
			return nil, fmt.Errorf("there is no scene %q", name)
		}
		if err := play(ctx, stage, name, command); err != nil {
			failed[name] = err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		word := "ok"
		if failed[name] != nil {
			word = "FAILED"
		}
		fmt.Fprintln(out, strings.TrimSpace(fmt.Sprintf("%-6s  %-18s  %s", word, name, cmp.Or(failed[name], errNothing))))
	}
	return failed, nil
}

// errNothing stands for no error where one is printed.
var errNothing = errors.New("")
