package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// Exit statuses.
const (
	exitOK      = 0
	exitFailed  = 1
	exitRefused = 2
)

type cli struct {
	Config    kong.ConfigFlag `help:"File with settings (YAML), named as the flags without the dashes." placeholder:"FILE" env:"POSTRIDER_CONFIG"`
	LogLevel  string          `help:"Least level that is logged: ${enum}; auto is info, but warn for dev." enum:"auto,debug,info,warn,error" default:"auto"`
	LogFormat string          `help:"Format of the log: ${enum}." enum:"text,json" default:"text"`
	Wide      bool            `help:"Print tables as wide as they are; without it they fit the terminal." env:"-"`
	VersionIs versionFlag     `name:"version" help:"Print the version." env:"-"`

	Dev        devCmd        `cmd:"" help:"Run everything on this machine: PostgreSQL, NATS, workers, monitor, events, checker."`
	Verify     verifyCmd     `cmd:"" help:"Prove the promises on your servers: break workers and connections in a schema and a stream that are removed again."`
	Run        runCmd        `cmd:"" help:"Run one worker of the cluster."`
	Monitor    monitorCmd    `cmd:"" help:"Serve the monitor, its API and the metrics alone, without a worker."`
	Migrate    migrateCmd    `cmd:"" help:"Create, remove or look at the tables."`
	Doctor     doctorCmd     `cmd:"" help:"Check that database and broker are fit, and say what to do."`
	Status     statusCmd     `cmd:"" help:"Show backlog, workers and partitions in one summary."`
	Workers    workersCmd    `cmd:"" help:"List the workers, or have one drained."`
	Partitions partitionsCmd `cmd:"" help:"List partitions and their leases, or make their rows complete."`
	Messages   messagesCmd   `cmd:"" help:"List messages, or show one with its history and what waits behind it."`
	Dead       deadCmd       `cmd:"" help:"List dead messages, requeue, skip or discard them."`
	Replay     replayCmd     `cmd:"" help:"Deliver events again, to the live subjects or under a prefix."`
	Gaps       gapsCmd       `cmd:"" help:"Compare events, outbox, history and stream, and queue what was never enqueued."`
	Inbox      inboxCmd      `cmd:"" help:"Create the tables of consumers' inboxes, and mend what is dead in one."`
	Import     importCmd     `cmd:"" help:"Append events from files of JSON lines."`
	Capture    captureCmd    `cmd:"" help:"Have the changes of any table append events."`
	Adopt      adoptCmd      `cmd:"" help:"Have an outbox table that is there append events, and import what waits in it."`
	Types      typesCmd      `cmd:"" help:"Register what payloads of event types look like, and have them checked."`
	Events     eventsCmd     `cmd:"" help:"Keep the events in parts, and drop old ones."`
	Asyncapi   asyncapiCmd   `cmd:"" help:"Describe topics, types and headers as an AsyncAPI document."`
	Tail       tailCmd       `cmd:"" help:"Subscribe to the events, print or count them, and check their order."`
	ConfigCmd  configCmd     `cmd:"" name:"config" help:"Show the settings."`

	Healthcheck healthcheckCmd `cmd:"" help:"Ask a monitor whether it lives; for containers."`
	Version     versionCmd     `cmd:"" help:"Show the version."`
	Help        helpCmd        `cmd:"" help:"Explain a command."`
	Completion  completionCmd  `cmd:"" help:"Print the script that completes commands and flags in a shell."`
	Complete    completeCmd    `cmd:"" name:"__complete" hidden:""`
}

// session holds the streams, flags and context of a command.
type session struct {
	ctx    context.Context //nolint:containedctx // the process's context, handed to kong's Run methods
	stdout io.Writer
	stderr io.Writer
	cli    *cli
	kong   *kong.Kong
}

// errRefused marks an error of the configuration, not of the work.
var errRefused = errors.New("refused")

func main() {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		ends = append(ends, syscall.SIGHUP) // the terminal is gone
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// outlivePipe lets a process end in order when the reader of its output is gone.
func outlivePipe() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// run is main without the process, for tests.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	var c cli
	parser, err := kong.New(&c,
		kong.Name("postrider"),
		kong.Description("Carries events from a PostgreSQL outbox to NATS JetStream, in order, losing none."),
		kong.DefaultEnvars("POSTRIDER"),
		kong.Configuration(loadFile),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exit(code)) }),
		kong.UsageOnError(),
		flagGroups,
	)
	if err != nil {
		fmt.Fprintln(stderr, "postrider: "+err.Error())
		return exitFailed
	}
	defer func() { // --help ends the parser by a panic
		if e, ok := recover().(exit); ok {
			code = int(e)
		}
	}()
	stdout, stderr = visibleWriter{stdout}, visibleWriter{stderr}
	command, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(stderr, "postrider: %s\nRun `postrider %s--help` for the flags.\n", redact(err.Error()), redact(commandPath(args)))
		return exitRefused
	}
	if c.Wide {
		stdout = fullWidth{stdout}
	}
	err = command.Run(&session{ctx: ctx, stdout: stdout, stderr: stderr, cli: &c, kong: parser})
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errSilent):
		return exitFailed
	}
	if c.LogFormat == "json" { // readers of the log expect objects
		newLogger(stderr, slog.LevelError, c.LogFormat).Error("the command failed", "error", inFlags(err.Error()))
	} else {
		fmt.Fprintln(stderr, "postrider: "+redact(inFlags(err.Error())))
	}
	if errors.Is(err, errRefused) {
		return exitRefused
	}
	return exitFailed
}

// exit carries an exit status out of the parser.
type exit int

// errSilent marks an error that was already printed.
var errSilent = errors.New("failed")

// commandPath returns the first arguments, which name a command.
func commandPath(args []string) string {
	path := ""
	for _, a := range args {
		if a == "" || a[0] == '-' {
			break
		}
		path += a + " "
	}
	return path
}
