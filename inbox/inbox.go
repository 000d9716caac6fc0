package inbox

import (
	"context"
	"embed"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/message"
)

//go:embed sql/*.sql
var statements embed.FS

type queries struct {
	Settings, SettingsBack, LimitIdle pg.Query

	Decide, Record, LockStream, ForgetStream, ForgetRecords, Purge pg.Query
	Park, Unpark, Claim, Unclaim, Bury, Head, Fail                 pg.Query
	List, Count, Requeue, FindDead, TakeDead                       pg.Query
	AddSender, LockSender, SetSender, LastCall                     pg.Query
	AddConsumer, LockConsumer, RestartConsumer, AddMalformed       pg.Query
	Beat, Leave, Readers, Ahead                                    pg.Query
	AddLanes, Acquire, Renew, Mine, Fence, Begin, Advance, Release pg.Query
	RestartLanes, Rewind, Marks, Disown, Lanes                     pg.Query
}

// DB is a pgx pool, connection or transaction. Migrate, and a reader that begins, ask for READ COMMITTED by BeginTx, if it has that.
type DB = pg.DB

// Handler applies a message inside the inbox's transaction and returns the answer to its repeats; nil is fine. It must make every effect
// through tx, and neither commit nor roll back. An error undoes all its effects. It may run more than once before its transaction is
// committed, so that effects outside of tx can happen more than once.
type Handler func(ctx context.Context, tx pgx.Tx, m message.Message) (result []byte, err error)

// Inbox processes the messages of one consumer. It may be used from several goroutines and processes.
type Inbox struct {
	db      DB
	cfg     Config
	sql     queries
	metrics *metrics
	// id names this process in the marks of messages whose handler was begun.
	id uuid.UUID
	// alone is taken by suspect messages, so that no other is blamed for an end of the process.
	alone chan struct{}

	mu     sync.Mutex
	random *rand.Rand
}

// New checks the configuration; it does not connect.
func New(db DB, cfg Config) (*Inbox, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	i := &Inbox{
		db: db, cfg: cfg, id: uuid.New(), alone: make(chan struct{}, 1),
		random: rand.New(rand.NewPCG(cfg.Seed, cfg.Seed)),
	}
	if err := pg.Fill(statements, "sql/*.sql", "inbox", cfg.Schema, &i.sql); err != nil {
		return nil, fmt.Errorf("inbox: %w", err)
	}
	i.metrics = newMetrics(cfg.Registerer, cfg.Name)
	return i, nil
}

// Name is the consumer's name.
func (i *Inbox) Name() string { return i.cfg.Name }

// delay returns the wait after so many failures.
func (i *Inbox) delay(attempts int) time.Duration {
	d := float64(i.cfg.BackoffBase) * math.Pow(i.cfg.BackoffFactor, float64(max(attempts, 1)-1))
	d = min(d, float64(i.cfg.BackoffMax))
	if i.cfg.Jitter == JitterEqual {
		i.mu.Lock()
		d = d/2 + i.random.Float64()*d/2
		i.mu.Unlock()
	}
	return time.Duration(min(d, 1<<62)) // the largest duration has no place in a float
}

// fate returns a message's status after this failure: Failed with the time until the next try, or Dead.
func (i *Inbox) fate(attempts int, cause error) (Status, time.Duration) {
	if IsFinal(cause) || i.cfg.MaxAttempts != NoLimit && attempts >= i.cfg.MaxAttempts {
		return Dead, 0
	}
	return Failed, i.delay(attempts)
}

// committed begins transactions at READ COMMITTED, which see others' commits during a wait for locks.
type committed struct{ DB }

func (c committed) Begin(ctx context.Context) (pgx.Tx, error) {
	if conn, may := c.DB.(pg.Conn); may {
		return conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	}
	return c.DB.Begin(ctx) // within the caller's transaction
}

// begin opens a transaction; the function that ends it, unless it is committed, is safe to call twice.
func (i *Inbox) begin(ctx context.Context) (pgx.Tx, func(), error) {
	tx, err := i.db.Begin(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("inbox: begin: %w", err)
	}
	return tx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = tx.Rollback(ctx) // after a commit there is nothing to roll back; a broken session is rolled back by the server
	}, nil
}

const rollbackTimeout = 5 * time.Second

// idleLimit bounds the idle time of the inbox's sessions in a transaction, in PostgreSQL's form.
func (i *Inbox) idleLimit() string {
	return fmt.Sprintf("%dms", (i.cfg.HandlerTimeout + idleMargin).Milliseconds())
}

const idleMargin = time.Second

// limitIdle makes PostgreSQL end a transaction that idles longer, so that a suspended process keeps no locks.
func (i *Inbox) limitIdle(ctx context.Context, tx pgx.Tx) error {
	if _, err := i.sql.LimitIdle.Exec(ctx, tx, pg.Args{"idle": i.idleLimit()}); err != nil {
		return fmt.Errorf("inbox: limit how long a transaction is idle: %w", err)
	}
	return nil
}
