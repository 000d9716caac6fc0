package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/postrider/postrider/inbox"
)

const usage = `Usage: searchsync COMMAND [FLAGS] [ARGUMENTS]

  demo                   documents are written, changed and deleted; the index follows; both are compared
  run                    keep an index in step with the documents, and answer the commands below
  save ID TITLE BODY     create or change a document
  delete ID              delete a document
  load FILE              save documents from JSON lines {"id","title","body"}, 100 a transaction; "-" is standard input
  search WORDS           ask the index
  check                  what differs between index and database; status 1 if anything does
  repair                 bring what differs to the index
  reindex                build a fresh index from the database and swap it in
  parked                 documents that the index did not take, and why
  requeue                try again those that it refused for good

DATABASE_URL and NATS_URL say where PostgreSQL and NATS are, MEILI_API_KEY holds Meilisearch's key.
searchsync COMMAND -h shows the flags.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "searchsync:", err)
		os.Exit(1)
	}
}

// settings are the flags of all commands.
type settings struct {
	kind, dir, meiliURL, meiliIndex, listen, server, settle string
	backoff, backoffMax, lease                              time.Duration
	json                                                    bool
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return errors.New("name a command")
	}
	var s settings
	flags := flag.NewFlagSet("searchsync "+args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.kind, "index", "bleve", "run: bleve or meilisearch")
	flags.StringVar(&s.dir, "dir", "searchsync-index", "run: folder of the Bleve index")
	flags.StringVar(&s.meiliURL, "meili-url", "http://127.0.0.1:7700", "run: address of Meilisearch")
	flags.StringVar(&s.meiliIndex, "meili-index", "documents", "run: name of the index in Meilisearch")
	flags.DurationVar(&s.backoff, "backoff", time.Second, "run: after a document's first failure; doubles with each")
	flags.DurationVar(&s.backoffMax, "backoff-max", time.Minute, "run: longest wait between two attempts")
	flags.DurationVar(&s.lease, "lease-ttl", 5*time.Second, "run: how long the documents of a killed process wait for another one, 1s to 10m")
	flags.StringVar(&s.listen, "listen", "127.0.0.1:7780", "run: address to answer on")
	flags.StringVar(&s.server, "server", "http://127.0.0.1:7780", "other commands: address of searchsync run")
	flags.StringVar(&s.settle, "settle", "5s", "check, repair: how long changes that are on their way may take")
	flags.BoolVar(&s.json, "json", false, "print JSON")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	command, ok := commands[args[0]]
	if !ok {
		fmt.Fprint(stderr, usage)
		return fmt.Errorf("there is no command %q", args[0])
	}
	if flags.NArg() != command.arguments {
		return fmt.Errorf("%s takes %d arguments, got %d; flags come before them", args[0], command.arguments, flags.NArg())
	}
	return command.run(ctx, s, flags.Args(), stdout, slog.New(slog.NewTextHandler(stderr, nil)))
}

type commandFunc func(ctx context.Context, s settings, args []string, stdout io.Writer, log *slog.Logger) error

var commands = map[string]struct {
	arguments int
	run       commandFunc
}{
	"demo": {0, demo},
	"run":  {0, runServer},
	"save": {3, withStore(func(ctx context.Context, st *store, args []string) error {
		return st.save(ctx, document{ID: args[0], Title: args[1], Body: args[2]})
	})},
	"delete":  {1, withStore(func(ctx context.Context, st *store, args []string) error { return st.remove(ctx, args[0]) })},
	"load":    {1, withStore(load)},
	"search":  {1, asking(func(ctx context.Context, c client, _ settings, args []string) error { return c.search(ctx, args[0]) })},
	"check":   {0, asking(func(ctx context.Context, c client, s settings, _ []string) error { return c.check(ctx, s.settle) })},
	"repair":  {0, asking(func(ctx context.Context, c client, s settings, _ []string) error { return c.repair(ctx, s.settle) })},
	"reindex": {0, asking(func(ctx context.Context, c client, _ settings, _ []string) error { return c.reindex(ctx) })},
	"parked":  {0, asking(func(ctx context.Context, c client, _ settings, _ []string) error { return c.parked(ctx) })},
	"requeue": {0, asking(func(ctx context.Context, c client, _ settings, _ []string) error { return c.requeue(ctx) })},
}

// asking makes a command of a question to a running searchsync.
func asking(ask func(ctx context.Context, c client, s settings, args []string) error) commandFunc {
	return func(ctx context.Context, s settings, args []string, stdout io.Writer, _ *slog.Logger) error {
		return ask(ctx, client{address: s.server, json: s.json, stdout: stdout}, s, args)
	}
}

// withStore makes a command of a change of the documents.
func withStore(work func(ctx context.Context, st *store, args []string) error) commandFunc {
	return func(ctx context.Context, _ settings, args []string, _ io.Writer, _ *slog.Logger) error {
		pool, err := open(ctx)
		if err != nil {
			return err
		}
		defer pool.Close()
		st, err := newStore(ctx, pool)
		if err != nil {
			return err
		}
		return work(ctx, st, args)
	}
}

func open(ctx context.Context) (*pgxpool.Pool, error) {
	url := os.Getenv("DATABASE_URL")
	if url == "" {
		return nil, errors.New("DATABASE_URL is not set; postrider dev prints one")
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("DATABASE_URL cannot be read as an address") // the error would show it, with its password
	}
	config.MaxConns = 24 // 16 lanes, and what people ask
	return pgxpool.NewWithConfig(ctx, config)
}

func load(ctx context.Context, st *store, args []string) error {
	file := os.Stdin
	if args[0] != "-" {
		var err error
		if file, err = os.Open(args[0]); err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
	}
	const size = 100
	var documents []document
	for decoder := json.NewDecoder(file); ; {
		var d document
		err := decoder.Decode(&d)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		if err == nil {
			documents = append(documents, d)
		}
		if len(documents) > 0 && (err != nil || len(documents) == size) {
			if err := st.save(ctx, documents...); err != nil {
				return err
			}
			documents = documents[:0]
		}
		if err != nil {
			return nil
		}
	}
}

// openIndex opens the index that the settings name.
func openIndex(ctx context.Context, s settings, log *slog.Logger) (index, error) {
	switch s.kind {
	case "bleve":
		return openBleve(s.dir)
	case "meilisearch":
		server, err := newMeiliServer(s.meiliURL, os.Getenv("MEILI_API_KEY"))
		if err != nil {
			return nil, err
		}
		for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
			m, err := openMeili(ctx, server, s.meiliIndex)
			var answer *meiliError
			if err == nil || errors.As(err, &answer) && answer.Status/100 == 4 && answer.Status != http.StatusTooManyRequests {
				return m, err // a wrong key does not heal by itself
			}
			log.Warn("Meilisearch cannot be used yet", "error", err)
			if !pause(ctx, wait) {
				return nil, ctx.Err()
			}
		}
	}
	return nil, fmt.Errorf("--index must be bleve or meilisearch, got %q", s.kind)
}

func connect() (*nats.Conn, error) {
	address := os.Getenv("NATS_URL")
	if address == "" {
		return nil, errors.New("NATS_URL is not set; postrider dev prints one")
	}
	nc, err := nats.Connect(address, nats.Name("searchsync example"), nats.MaxReconnects(-1))
	if unreadable := new(url.Error); errors.As(err, &unreadable) {
		return nil, errors.New("NATS_URL cannot be read as an address") // the error would show it, with its password
	}
	return nc, err
}

// runServer is the command run.
func runServer(ctx context.Context, s settings, _ []string, stdout io.Writer, log *slog.Logger) error {
	if s.backoff <= 0 || s.backoffMax < s.backoff {
		return fmt.Errorf("--backoff must be above 0 and at most --backoff-max, got %s and %s", s.backoff, s.backoffMax)
	}
	if s.lease < time.Second || s.lease > 10*time.Minute {
		return fmt.Errorf("--lease-ttl must lie between 1s and 10m, got %s", s.lease)
	}
	pool, err := open(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	nc, err := connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	st, err := newStore(ctx, pool)
	if err != nil {
		return err
	}
	if err := inbox.Migrate(ctx, pool, inbox.DefaultSchema); err != nil {
		return err
	}
	in, err := openIndex(ctx, s, log)
	if err != nil {
		return err
	}
	box, err := inbox.New(pool, inboxConfig(in, log, s.backoff, s.backoffMax))
	if err != nil {
		return errors.Join(err, in.close())
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return errors.Join(fmt.Errorf("--listen: %w", err), in.close())
	}
	fmt.Fprintf(stdout, "searchsync answers on http://%s\n", listener.Addr())
	syncer := &syncer{store: st, index: in, log: log, lease: s.lease}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return syncer.consume(ctx, nc, box) })
	group.Go(func() error { return serve(ctx, listener, newServer(syncer, box).handler()) })
	return errors.Join(group.Wait(), in.close())
}
