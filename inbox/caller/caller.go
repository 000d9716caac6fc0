package caller

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/internal/closed"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/message"
)

//go:embed sql/*.sql
var statements embed.FS

type queries struct{ Queue, Waits, AddCaller, LockCaller, Head, Number, Failed, Remove, Last pg.Query }

// Errors to branch on.
var (
	// ErrOutdated comes from a Receiver whose side refused the call as Outdated.
	ErrOutdated = errors.New("the receiver has gone past this call")
	// ErrForgotten: the receiver knows calls that the sender's database does not. See GoOn.
	ErrForgotten = errors.New("the sender's database has forgotten calls that were carried out")
)

// Receiver is the other side, as the sender reaches it.
type Receiver interface {
	// Call has a call carried out, and returns its result, or the receiver's refusal, marked by inbox.Final: see inbox.Call there.
	// ErrOutdated stands for a call refused as Outdated. After any other error the call is sent again.
	Call(ctx context.Context, call inbox.Call, request []byte) (result []byte, err error)
	// Last returns the sender's last call: LastCall of the inbox there.
	Last(ctx context.Context, sender string) (inbox.Call, error)
}

// Answered takes in an answer, the result or the refusal, in the transaction that ends the call. It must make every effect through tx, and
// neither commit nor roll back. After an error the call is sent again, and answered with the same.
type Answered func(ctx context.Context, tx pgx.Tx, request, result []byte, no error) error

// Config has the settings of a Caller.
type Config struct {
	// Name of the sender, by which the receiver knows it. 1 to 2000 bytes. Needed.
	Name string
	// Schema holds the inbox tables. Defaults to "public".
	Schema string
	// Interval is the time between two polls while no call waits; Wake polls at once. Defaults to 500 ms.
	Interval time.Duration
	// Timeout bounds an attempt; the session may idle six times as long while the answer is taken in. Defaults to 5 s.
	Timeout time.Duration
	// Logger defaults to discarding.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Schema = cmp.Or(c.Schema, inbox.DefaultSchema)
	c.Interval, c.Timeout = cmp.Or(c.Interval, 500*time.Millisecond), cmp.Or(c.Timeout, 5*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// Validate refuses a wrong value with inbox.ErrConfig and names its field.
func (c Config) Validate() error {
	switch {
	case c.Name == "" || len(c.Name) > message.MaxKey || strings.ContainsRune(c.Name, 0) || !utf8.ValidString(c.Name):
		return fmt.Errorf("%w: Name must have 1 to %d bytes of text without NUL, got %d", inbox.ErrConfig, message.MaxKey, len(c.Name))
	case c.Interval < 0 || c.Timeout < 0:
		return fmt.Errorf("%w: Interval and Timeout must not be negative", inbox.ErrConfig)
	}
	return nil
}

// Caller sends the calls of one sender. Queue and Wake may be called from anywhere, Run once at a time.
type Caller struct {
	db       inbox.DB
	receiver Receiver
	answered Answered
	cfg      Config
	sql      queries
	idle     string // longest idle time of a session that holds the sender's locks: its process may be suspended
	wake     chan struct{}
	sent     underWay // last, by this process
	copied   string   // the copy of the database that was compared with the receiver
}

// New checks the configuration; it does not connect.
func New(db inbox.DB, receiver Receiver, answered Answered, cfg Config) (*Caller, error) {
	if db == nil || receiver == nil || answered == nil {
		return nil, fmt.Errorf("%w: database, receiver and who takes answers in are needed", inbox.ErrConfig)
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Caller{db: db, receiver: receiver, answered: answered, cfg: cfg.withDefaults(), wake: make(chan struct{}, 1)}
	c.idle = fmt.Sprintf("%dms", min(6*c.cfg.Timeout, 24*time.Hour).Milliseconds())
	if err := pg.Fill(statements, "sql/*.sql", "caller", c.cfg.Schema, &c.sql); err != nil {
		return nil, fmt.Errorf("%w: Schema: %w", inbox.ErrConfig, err)
	}
	return c, nil
}

// Queue makes the call if the transaction commits.
func (c *Caller) Queue(ctx context.Context, tx pgx.Tx, request []byte) error {
	request = append([]byte{}, request...) // nil is NULL
	if _, err := c.sql.Queue.Exec(ctx, tx, pg.Args{"sender": c.cfg.Name, "request": request}); err != nil {
		return fmt.Errorf("caller: queue a call: %w", err)
	}
	return nil
}

// Wake makes Run poll at once: for after the commit.
func (c *Caller) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

const (
	firstPause = 100 * time.Millisecond
	lastPause  = 30 * time.Second
)

// Run sends calls until the context ends, and returns nil then. It waits outages out; the only errors are ErrForgotten and inbox.ErrClosed.
func (c *Caller) Run(ctx context.Context) error {
	next, pause := c.compare, firstPause
	for ctx.Err() == nil {
		wait, wake := c.cfg.Interval, c.wake
		more, err := next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrForgotten):
			return err
		case closed.Pool(err) != nil:
			return closed.Pool(err)
		case err != nil:
			c.cfg.Logger.WarnContext(ctx, "a call has no answer", "sender", c.cfg.Name, "call_id", c.sent.call.ID, "error", err)
			wait, pause, wake = pause, min(2*pause, lastPause), nil
		default:
			next, pause = c.step, firstPause
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		case <-wake:
		}
	}
	return nil
}

// compare asks the receiver between two reads, so that another process's calls meanwhile do not count as forgotten.
func (c *Caller) compare(ctx context.Context) (more bool, err error) {
	_, answered, err := c.last(ctx)
	if err != nil {
		return false, err
	}
	theirs, err := c.receiver.Last(ctx, c.cfg.Name)
	if err != nil {
		return false, err
	}
	if answered.ID > 0 && inOrder(answered, theirs) != nil {
		c.cfg.Logger.ErrorContext(ctx, "the receiver has forgotten calls that it answered: queue again what has to be done again",
			"sender", c.cfg.Name, "last_id", theirs.ID, "call_id", answered.ID)
	}
	ours, _, err := c.last(ctx)
	if err != nil {
		return false, err
	}
	return true, inOrder(theirs, ours)
}

// last reads the last call that this database knows, and the last one with an answer.
func (c *Caller) last(ctx context.Context) (sent, answered inbox.Call, err error) {
	var open, hidden bool
	err = c.sql.Last.Row(ctx, c.db, pg.Args{"sender": c.cfg.Name}).Scan(&sent.Generation, &sent.ID, &c.copied, &open, &hidden)
	if err = cmp.Or(err, pg.Hidden(hidden, "inbox_callers")); err != nil {
		return sent, answered, fmt.Errorf("caller: last call: %w", err)
	}
	answered = sent
	if open {
		answered.ID--
	}
	return sent, answered, nil
}

// inOrder returns ErrForgotten where the first call is above the second.
func inOrder(theirs, ours inbox.Call) error {
	if theirs.Generation < ours.Generation || theirs.Generation == ours.Generation && theirs.ID <= ours.ID {
		return nil
	}
	return fmt.Errorf("%w: the last one was %d of generation %d, here it is %d of %d; compare both sides, then GoOn",
		ErrForgotten, theirs.ID, theirs.Generation, ours.ID, ours.Generation)
}

// GoOn sends the waiting calls under a new generation, whatever the receiver knows: for a person who has compared both sides after
// ErrForgotten. A waiting call that was carried out is carried out again. Run must not be running.
func (c *Caller) GoOn(ctx context.Context) error {
	theirs, err := c.receiver.Last(ctx, c.cfg.Name)
	if err != nil {
		return fmt.Errorf("caller: the receiver's last call: %w", err)
	}
	err = pgx.BeginFunc(ctx, c.db, func(tx pgx.Tx) error {
		last, err := c.lock(ctx, tx)
		if err != nil {
			return err
		}
		generation := max(theirs.Generation, last.call.Generation) + 1
		return c.number(ctx, tx, underWay{call: inbox.Call{Generation: generation}})
	})
	if err == nil {
		c.sent = underWay{}
	}
	return err
}
