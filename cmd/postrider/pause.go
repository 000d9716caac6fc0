package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/ops/resize"
	"github.com/postrider/postrider/partition"
)

type operatorFlags struct {
	databaseFlags
	JSON bool `help:"Print JSON." name:"json"`
}

// operator connects to the outbox; done closes the connection.
func (f *operatorFlags) operator(s *session) (op *ops.Operator, done func(), err error) {
	pool, info, err := f.outbox(s.ctx, "postrider operator", 1)
	if err != nil {
		return nil, nil, err
	}
	if op, err = ops.New(s.ctx, pool, f.Schema, info.events); err != nil {
		pool.Close()
		return nil, nil, err
	}
	return op, pool.Close, nil
}

type actorFlags struct {
	Reason string `help:"Why; written to the audit." placeholder:"TEXT" env:"-"`
	whoFlags
}

// whoFlags say who acts, for acts without a reason.
type whoFlags struct {
	Actor string `help:"Who; written to the audit. Without it the name of the login." placeholder:"NAME"`
}

func (f whoFlags) actor() string {
	if f.Actor != "" {
		return f.Actor
	}
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return os.Getenv("USER")
}

// confirmed refuses irreversible acts without a reason and --yes. It names all missing flags at once.
func confirmed(what, reason string, yes bool) error {
	reasoned := strings.TrimSpace(reason) != ""
	switch {
	case !reasoned && yes:
		return fmt.Errorf("%w: --reason is required; it is written to the audit", errRefused)
	case !reasoned:
		return fmt.Errorf("%w: %s; say --yes if that is meant, and --reason, which is written to the audit", errRefused, what)
	case !yes:
		return fmt.Errorf("%w: %s; say --yes if that is meant", errRefused, what)
	}
	return nil
}

// inputNames are the command line's names of inputs.
var inputNames = map[string]string{
	ops.FieldState: "--state", ops.FieldPartition: "partition", ops.FieldStream: "--stream", ops.FieldTopic: "--topic",
	ops.FieldType: "--type", ops.FieldTenant: "--tenant", ops.FieldError: "--error-contains", ops.FieldFamily: "--error-family", ops.FieldUntil: "--until", ops.FieldAfter: "--after",
	ops.FieldLimit: "--limit", ops.FieldSequence: "SEQUENCE", ops.FieldEventID: "--id", ops.FieldReason: "--reason",
	ops.FieldActor: "--actor", ops.FieldWorker: "WORKER", resize.FieldCount: "COUNT",
}

// inputRefused replaces the package's name of an input by the flag's.
func inputRefused(err error) error {
	var input *ops.InputError
	if !errors.As(err, &input) {
		return err
	}
	if name := inputNames[input.Field]; name != "" {
		return fmt.Errorf("%w: %s: %s", errRefused, name, input.Problem)
	}
	return fmt.Errorf("%w: %s", errRefused, input.Problem)
}

// flagRefused names the flag where package and flag share the input's name.
func flagRefused(err error) error {
	var input *ops.InputError
	if errors.As(err, &input) {
		return fmt.Errorf("%w: --%s %s", errRefused, input.Field, input.Problem)
	}
	return err
}

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

type pauseFlags struct {
	operatorFlags
	actorFlags
	Partitions []int `arg:"" optional:"" name:"partition" help:"Numbers of partitions."`
	All        bool  `help:"Every partition." env:"-"`
	DryRun     bool  `help:"Say what would be done, and do nothing." env:"-"`
}

type partitionsPauseCmd struct{ pauseFlags }

func (c *partitionsPauseCmd) Help() string {
	return `A paused partition keeps its owner and delivers nothing until it is resumed, also after restarts.
What is in flight is still settled.

Example:
  postrider partitions pause 3 7 --reason 'consumer is being repaired'`
}

func (c *partitionsPauseCmd) Run(s *session) error {
	return c.set(s, (*ops.Operator).Pause, "paused", "pause")
}

type partitionsResumeCmd struct{ pauseFlags }

func (c *partitionsResumeCmd) Run(s *session) error {
	return c.set(s, (*ops.Operator).Resume, "resumed", "resume")
}

func (f *pauseFlags) set(s *session, set func(*ops.Operator, context.Context, ops.PauseCommand) (ops.PauseResult, error), did, verb string) error {
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
	r, err := set(op, s.ctx, ops.PauseCommand{Partitions: ids, All: f.All, Actor: f.actor(), Reason: f.Reason, DryRun: f.DryRun})
	if err != nil {
		return inputRefused(err)
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
	return answer(s.stdout, f.JSON, r.Body(verb, f.DryRun), text)
}
