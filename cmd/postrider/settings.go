package main

import (
	"fmt"
	"time"

	"github.com/postrider/postrider/coordinator"
	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/worker"
)

// workerFlags are the settings of a worker; `run` and `dev` share them.
type workerFlags struct {
	streamFlags `group:"stream"`
	shapeFlags  `group:"shape"`

	Ordering     string        `help:"What is kept in order: ${enum}." enum:"partition,stream" default:"partition"`
	Assignment   string        `help:"How partitions are shared: ${enum}." enum:"modulo,sticky" default:"modulo"`
	LeaseTTL     time.Duration `help:"How long a lease and a heartbeat last without renewal." default:"10s"`
	BatchSize    int           `help:"Most messages of one partition in one batch." default:"500"`
	InFlight     int           `help:"Most messages between claim and mark." default:"4096"`
	Interval     time.Duration `help:"How often the outbox is looked at when no doorbell rings; up to four times rarer while nothing is committed." default:"50ms"`
	AckTimeout   time.Duration `help:"The longest that the broker may be silent while acknowledgements are awaited." default:"5s"`
	DrainTimeout time.Duration `help:"How long work in flight may hold up a handover." default:"5s"`
	MaxAttempts  int           `group:"retry" help:"Failures after which a message is dead; 0: never." default:"8"`
	RetryBase    time.Duration `group:"retry" help:"Wait after the first failure, doubled with each; half of it at random." default:"1s"`
	RetryMax     time.Duration `group:"retry" help:"Longest wait between attempts." default:"5m"`
	Behind       string        `group:"retry" help:"What waits behind a message that fails: ${enum}. stream: its stream, and when it is dead until a person acts; retries: its stream, until it is dead; none: nothing." enum:"stream,retries,none" default:"stream"`
	LostMessages string        `group:"retry" help:"What is done about acknowledged messages that the stream lost: ${enum}." enum:"republish,report" default:"republish"`
	KeepRecords  time.Duration `help:"How long the stream keeps the records of former batches; 0: for ever." default:"10m"`
	Retention    time.Duration `help:"How long the history of deliveries and dedupe keys are kept; 0: for ever." default:"168h"`
}

func (f workerFlags) settings() (c worker.Config, err error) {
	c.Lease.TTL, c.Retention = f.LeaseTTL, &pgstore.RetentionConfig{History: f.Retention}
	c.Coordinator = coordinator.Config{Strategy: partition.Strategy(f.Assignment), DrainTimeout: f.DrainTimeout}
	c.Stream.Name, c.AckTimeout = f.Stream, f.AckTimeout
	c.Heartbeat.Shape = f.shapeFlags.settings()
	if c.Shape, err = f.shape(f.Subject); err != nil {
		return c, err
	}
	c.Delivery, err = f.relay()
	return c, err
}

func (f workerFlags) relay() (c loop.Config, err error) {
	c = loop.Config{
		BatchSize: f.BatchSize, Window: f.InFlight, PollInterval: f.Interval, Retry: delivery.DefaultRetryPolicy(),
		Ordering: delivery.Ordering(f.Ordering), Lost: delivery.Lost(f.LostMessages), KeepRecords: f.KeepRecords, Failure: delivery.FailurePolicy(f.Behind),
	}
	c.Retry.Base, c.Retry.Max, c.Retry.MaxAttempts = f.RetryBase, f.RetryMax, f.MaxAttempts
	c.Transforms, err = f.transforms()
	return c, err
}

// validate refuses values by the flag's name that packages would refuse by the field's.
func (f workerFlags) validate() error {
	if err := f.shapeFlags.validate(); err != nil {
		return err
	}
	c, err := f.settings()
	if err != nil {
		return err
	}
	c.DatabaseURL = "postgres://" // its own flag is checked elsewhere
	if err := c.Validate(); err != nil {
		return refusedFor(worker.ErrConfig, err)
	}
	switch {
	case f.BatchSize == 0:
		return fmt.Errorf("%w: --batch-size must lie between 1 and 10000, got 0", errRefused)
	case f.InFlight == 0:
		return fmt.Errorf("%w: --in-flight must be at least --batch-size, got 0", errRefused)
	case f.AckTimeout < 10*time.Millisecond:
		return fmt.Errorf("%w: --ack-timeout must be at least 10ms, got %s", errRefused, f.AckTimeout)
	}
	for name, d := range map[string]time.Duration{
		"--lease-ttl": f.LeaseTTL, "--interval": f.Interval, "--drain-timeout": f.DrainTimeout,
	} {
		if d <= 0 {
			return fmt.Errorf("%w: %s must be above 0, got %s", errRefused, name, d)
		}
	}
	return nil
}
