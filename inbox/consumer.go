package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/closed"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/message"
)

// ConsumerConfig has the settings of a Consumer.
type ConsumerConfig struct {
	// Stream is the JetStream stream, with retention by limits. Defaults to "EVENTS".
	Stream string
	// Filter is the subject filter; it must not cover the workers' control messages on outbox.fence.>. Defaults to "events.>".
	Filter string
	// Lanes is the number of lanes that share the messages, 1 to 1024, and so the most readers that share the work; fixed by the consumer's
	// first start. 0 means 16 then, and the stored number later.
	Lanes int
	// LaneKey names the messages that stay together: one reader deals with those of one key, one after the other, in the stream's order. The
	// same in all processes, and for one event always the same. It gets bodies decompressed. Defaults to the event's stream.
	LaneKey func(message.Message) string
	// FromNew makes a new consumer begin at the stream's end. Defaults to its beginning.
	FromNew bool
	// BatchSize is the most messages in one transaction, 1 to 10,000. Defaults to 100.
	BatchSize int
	// Workers is the number of lanes that have a transaction at once in this process, 1 to 1024, each with a connection of the pool. Retries
	// have one more. Defaults to 4.
	Workers int
	// LeaseTTL ends the lane of a reader without a sign of life, 1 s to 10 min. Defaults to 10 s.
	LeaseTTL time.Duration
	// Interval is the time between a reader's signs of life and polls for readers and due retries, 10 ms to a third of LeaseTTL. Defaults to
	// a tenth of LeaseTTL, at most 1 s.
	Interval time.Duration
	// QuietTime without messages makes a reader ask JetStream for more, 100 ms to 10 min. Defaults to 5 s.
	QuietTime time.Duration
	// DrainTimeout bounds the transactions in flight when Run is asked to end, 0 to 10 min. Defaults to 10 s.
	DrainTimeout time.Duration
}

const (
	defaultLanes = 16
	maxLanes     = 1024
)

// Validate refuses a wrong value with ErrConfig and names its field.
func (c ConsumerConfig) Validate() error {
	c = c.withDefaults()
	between := func(name string, d, low, high time.Duration) error {
		if d < low || d > high {
			return fmt.Errorf("%w: %s must be %s to %s, got %s", ErrConfig, name, low, high, d)
		}
		return nil
	}
	count := func(name string, n, low, high int) error {
		if n < low || n > high {
			return fmt.Errorf("%w: %s must be %d to %d, got %d", ErrConfig, name, low, high, n)
		}
		return nil
	}
	return errors.Join(
		checkFilter(c.Filter),
		count("Lanes", c.Lanes, 0, maxLanes),
		count("BatchSize", c.BatchSize, 1, 10_000),
		count("Workers", c.Workers, 1, maxLanes),
		between("LeaseTTL", c.LeaseTTL, time.Second, 10*time.Minute),
		between("Interval", c.Interval, 10*time.Millisecond, c.LeaseTTL/3),
		between("QuietTime", c.QuietTime, 100*time.Millisecond, 10*time.Minute),
		between("DrainTimeout", c.DrainTimeout, 0, 10*time.Minute),
	)
}

// control matches filters that cover outbox.fence.>.
var control = regexp.MustCompile(`^(>(\.|$)|(outbox|\*)\.(>(\.|$)|(fence|\*)\.))`)

// checkFilter refuses a filter that lets the workers' control messages through.
func checkFilter(filter string) error {
	if !control.MatchString(filter) {
		return nil
	}
	return fmt.Errorf("%w: Filter %q covers outbox.fence.>, the workers' control messages; the default is events.>", ErrConfig, filter)
}

func (c ConsumerConfig) withDefaults() ConsumerConfig {
	c.Stream = cmp.Or(c.Stream, "EVENTS")
	c.Filter = cmp.Or(c.Filter, "events.>")
	c.BatchSize = cmp.Or(c.BatchSize, 100)
	c.Workers = cmp.Or(c.Workers, 4)
	c.LeaseTTL = cmp.Or(c.LeaseTTL, 10*time.Second)
	c.Interval = cmp.Or(c.Interval, min(c.LeaseTTL/10, time.Second))
	c.QuietTime = cmp.Or(c.QuietTime, 5*time.Second)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 10*time.Second)
	return c
}

// Consumer reads a JetStream stream into an inbox, together with the other processes that run one under its name.
type Consumer struct {
	box    *Inbox
	js     jetstream.JetStream
	handle Handler
	cfg    ConsumerConfig
}

// NewConsumer checks the configuration; it does not connect.
func NewConsumer(box *Inbox, js jetstream.JetStream, handle Handler, cfg ConsumerConfig) (*Consumer, error) {
	if box == nil || js == nil || handle == nil {
		return nil, fmt.Errorf("%w: inbox, JetStream and handler are needed", ErrConfig)
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Consumer{box: box, js: js, handle: handle, cfg: cfg.withDefaults()}, nil
}

// Run reads until the context ends, lets the transactions in flight end, gives its lanes to the other readers and returns nil. At the start
// it returns errors: ErrStream for a missing or unfit stream, ErrConfig for lanes other than the stored ones, ErrNotMigrated, ErrClosed, and
// the database's errors. Later it waits outages out, and returns ErrClosed alone.
func (c *Consumer) Run(ctx context.Context) error {
	r, err := newReader(ctx, c)
	switch {
	case err == nil:
		return r.run(ctx)
	case ctx.Err() != nil:
		return nil
	case c.js.Conn().IsClosed():
		return closed.Connection(ctx, c.js.Conn())
	}
	return cmp.Or(closed.Pool(err), err)
}

type prepared struct {
	lanes   int
	created time.Time
	// rewound: the lanes begin further back, under new epochs.
	rewound bool
}

// prepare checks the stream and completes the consumer's rows. read is this reader's position in the stream that was made at of, zero without
// any.
func (c *Consumer) prepare(ctx context.Context, read mark, of time.Time) (state prepared, err error) {
	marks, err := c.marks(ctx) // before the stream is asked: it goes on
	if err != nil {
		return prepared{}, err
	}
	stream, err := c.js.Stream(ctx, c.cfg.Stream)
	if err != nil {
		return prepared{}, fmt.Errorf("%w: %s: %w", ErrStream, c.cfg.Stream, err)
	}
	info := stream.CachedInfo()
	remembered := false // this reader's position, which no lane's row has
	if info.Created.Equal(of) {
		remembered = !slices.Contains(marks, read)
		marks = append(marks, read)
	}
	if info.Config.Retention != jetstream.LimitsPolicy {
		return prepared{}, fmt.Errorf("%w: %s has retention %s: other readers' messages would be deleted; it must be limits",
			ErrStream, c.cfg.Stream, info.Config.Retention)
	}
	d, err := c.doubted(ctx, stream, marks) // ask the stream before locking a row: others wait for locks
	if err != nil {
		return prepared{}, err
	}
	state.created = info.Created
	err = pgx.BeginFunc(ctx, committed{c.box.db}, func(tx pgx.Tx) error {
		if err := c.box.limitIdle(ctx, tx); err != nil {
			return err
		}
		state.lanes, state.rewound, err = c.register(ctx, tx, info)
		if err == nil && !state.rewound && d.worst != holds {
			state.rewound, err = c.rewind(ctx, tx, d)
			state.rewound = state.rewound || d.worst >= gone && remembered && slices.Contains(d.marks, read)
		}
		return err
	})
	return state, err
}

// register writes the missing rows of the consumer and its lanes, and begins anew when the stream did.
func (c *Consumer) register(ctx context.Context, tx pgx.Tx, info *jetstream.StreamInfo) (lanes int, anew bool, err error) {
	lanes = cmp.Or(c.cfg.Lanes, defaultLanes)
	name, created := c.box.cfg.Name, info.Created.UTC().Truncate(time.Microsecond)
	sql, named := &c.box.sql, pg.Args{"consumer": name}
	args := pg.Args{"consumer": name, "lanes": lanes, "stream": c.cfg.Stream, "created": created}
	if _, err := sql.AddConsumer.Exec(ctx, tx, args); err != nil {
		return 0, false, fmt.Errorf("inbox: prepare consumer %s: %w", name, withCure(err))
	}
	var stored int
	var from string
	var since time.Time
	if err := sql.LockConsumer.Row(ctx, tx, named).Scan(&stored, &from, &since); err != nil {
		return 0, false, fmt.Errorf("inbox: prepare consumer %s: %w", name, err)
	}
	switch {
	case c.cfg.Lanes != 0 && stored != c.cfg.Lanes:
		return 0, false, fmt.Errorf("%w: Lanes is %d, but consumer %s began with %d", ErrConfig, c.cfg.Lanes, name, stored)
	case from != c.cfg.Stream:
		return 0, false, fmt.Errorf("%w: Stream is %s, but consumer %s reads %s", ErrConfig, c.cfg.Stream, name, from)
	case !since.Equal(created):
		anew = true
		c.box.cfg.Logger.WarnContext(ctx, "the stream was made anew: reading it from its beginning", "consumer", name, "stream", from)
		if _, err := sql.RestartConsumer.Exec(ctx, tx, pg.Args{"consumer": name, "created": created}); err != nil {
			return 0, false, fmt.Errorf("inbox: restart consumer %s: %w", name, err)
		}
		if _, err := sql.RestartLanes.Exec(ctx, tx, named); err != nil {
			return 0, false, fmt.Errorf("inbox: restart consumer %s: %w", name, err)
		}
	}
	var position, at int64
	if c.cfg.FromNew && info.State.LastSeq > 0 {
		// A bound, no message: workers remove their records.
		position, at = int64(info.State.LastSeq), -info.State.LastTime.UnixNano()-1
	}
	if _, err := sql.AddLanes.Exec(ctx, tx, pg.Args{"consumer": name, "lanes": stored, "position": position, "time": at}); err != nil {
		return 0, false, fmt.Errorf("inbox: prepare consumer %s: %w", name, err)
	}
	return stored, anew, nil
}
