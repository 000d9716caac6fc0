package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/admin"
	"github.com/postrider/postrider/partition"
)

// adminFlags are those of the commands for operators.
type adminFlags struct {
	databaseFlags
	EventsRelation string `help:"Table or view that holds the events, as name or schema.name." default:"events"`
	JSON           bool   `help:"Print JSON." name:"json"`
}

// operator connects to the outbox; done closes the connection.
func (f *adminFlags) operator(s *session) (op *admin.Operator, done func(), err error) {
	if err := f.validate(); err != nil {
		return nil, nil, err
	}
	events, err := delivery.ParseRelation(f.EventsRelation)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: --events-relation: %w", errRefused, err)
	}
	pool, err := f.pool(s.ctx, "postrider operator", 1)
	if err != nil {
		return nil, nil, err
	}
	if _, err := checkSchema(s.ctx, pool, f.Schema, 0); err != nil {
		pool.Close()
		return nil, nil, err
	}
	op, err = admin.New(s.ctx, pool, f.Schema, events)
	if err != nil {
		pool.Close()
		return nil, nil, fmt.Errorf("--events-relation: %w", err)
	}
	return op, pool.Close, nil
}

// actorFlags say who acts and why.
type actorFlags struct {
	Reason string `help:"Why; written to the audit." placeholder:"TEXT" env:"-"`
	Actor  string `help:"Who; written to the audit. Without it the name of the login." placeholder:"NAME"`
}

func (f actorFlags) actor() string {
	if f.Actor != "" {
		return f.Actor
	}
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return os.Getenv("USER")
}

// inputNames are the command line's names of inputs.
var inputNames = map[string]string{
	admin.FieldState: "--state", admin.FieldPartition: "partition", admin.FieldStream: "--stream", admin.FieldTopic: "--topic",
	admin.FieldType: "--type", admin.FieldError: "--error-contains", admin.FieldUntil: "--until", admin.FieldAfter: "--after",
	admin.FieldLimit: "--limit", admin.FieldSequence: "SEQUENCE", admin.FieldEventID: "--id", admin.FieldReason: "--reason",
	admin.FieldActor: "--actor", admin.FieldWorker: "WORKER",
}

// inputRefused names the flag where the package names its input.
func inputRefused(err error) error {
	var input *admin.InputError
	if !errors.As(err, &input) {
		return err
	}
	if name := inputNames[input.Field]; name != "" {
		return fmt.Errorf("%w: %s: %s", errRefused, name, input.Problem)
	}
	return fmt.Errorf("%w: %s", errRefused, input.Problem)
}

// partitionIDs reads numbers of partitions.
func partitionIDs(name string, numbers []int) ([]partition.ID, error) {
	ids := make([]partition.ID, len(numbers))
	for i, n := range numbers {
		if n < 0 || n >= int(partition.MaxCount) {
			return nil, fmt.Errorf("%w: %s must lie between 0 and %d, got %d", errRefused, name, partition.MaxCount-1, n)
		}
		ids[i] = partition.ID(n)
	}
	return ids, nil
}

type pauseFunc func(*admin.Operator, context.Context, admin.PauseCommand) (admin.PauseResult, error)

type pauseFlags struct {
	adminFlags
	actorFlags
	Partitions []int `arg:"" optional:"" name:"partition" help:"Numbers of partitions."`
	All        bool  `help:"Every partition." env:"-"`
	DryRun     bool  `help:"Say what would be done, and do nothing." env:"-"`
}

type partitionsPauseCmd struct{ pauseFlags }

// Help explains below the flags.
func (c *partitionsPauseCmd) Help() string {
	return `A paused partition keeps its owner and delivers nothing until it is resumed, also after restarts.
What is in flight is still settled.

Example:
  postrider partitions pause 3 7 --reason 'consumer is being repaired'`
}

// Run pauses partitions.
func (c *partitionsPauseCmd) Run(s *session) error {
	return c.set(s, (*admin.Operator).Pause, "paused", "pause")
}

type partitionsResumeCmd struct{ pauseFlags }

// Run resumes partitions.
func (c *partitionsResumeCmd) Run(s *session) error {
	return c.set(s, (*admin.Operator).Resume, "resumed", "resume")
}

type pauseBody struct {
	Action    string         `json:"action"`
	Changed   []partition.ID `json:"changed"`
	Unchanged []partition.ID `json:"unchanged"`
	DryRun    bool           `json:"dry_run"`
}

func (f *pauseFlags) set(s *session, set pauseFunc, did, verb string) error {
	ids, err := partitionIDs("PARTITION", f.Partitions)
	if err != nil {
		return err
	}
	if len(ids) > 0 == f.All {
		return fmt.Errorf("%w: give the numbers of partitions, or --all, and not both", errRefused)
	}
	op, done, err := f.operator(s)
	if err != nil {
		return err
	}
	defer done()
	r, err := set(op, s.ctx, admin.PauseCommand{Partitions: ids, All: f.All, Actor: f.actor(), Reason: f.Reason, DryRun: f.DryRun})
	if err != nil {
		return inputRefused(err)
	}
	if f.JSON {
		return writeJSON(s.stdout, pauseBody{
			Action: verb, Changed: append([]partition.ID{}, r.Changed...), Unchanged: append([]partition.ID{}, r.Unchanged...), DryRun: f.DryRun,
		})
	}
	if f.DryRun {
		did = "would " + verb
	}
	text := fmt.Sprintf("%s %s", did, counted(len(r.Changed), "partition"))
	if len(r.Changed) > 0 {
		text += ": " + ranges(r.Changed)
	}
	if len(r.Unchanged) > 0 {
		text += "; already so: " + ranges(r.Unchanged)
	}
	_, err = fmt.Fprintln(s.stdout, text)
	return err
}
