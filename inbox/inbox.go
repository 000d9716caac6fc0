package inbox

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DB is what an inbox needs of a pgx pool.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Handler applies a message inside the inbox's transaction and returns what a repeat of it is answered with; nil is
// fine. It must make every effect through tx, and neither commit nor roll back. An error undoes all it did. It may run
// more than once before its transaction is committed, so that effects outside of tx can happen more than once.
type Handler func(ctx context.Context, tx pgx.Tx, m Message) (result []byte, err error)

// Inbox processes the messages of one consumer. It may be used from several goroutines and processes.
type Inbox struct{ cfg Config }

// New checks the configuration; it does not connect.
func New(db DB, cfg Config) (*Inbox, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	_ = db
	return &Inbox{cfg: cfg.withDefaults()}, nil
}

// Process deals with one message in one transaction.
func (i *Inbox) Process(ctx context.Context, m Message, handle Handler) (Outcome, error) {
	_, _, _ = ctx, m, handle
	return Outcome{}, nil
}

// ProcessBatch deals with many messages in as few transactions as possible.
func (i *Inbox) ProcessBatch(ctx context.Context, messages []Message, handle Handler) ([]Outcome, error) {
	_, _, _ = ctx, messages, handle
	return nil, nil
}

// RetryDue runs the handler for parked messages whose time has come and for those that waited behind them, up to limit
// messages, and returns how many are dealt with.
func (i *Inbox) RetryDue(ctx context.Context, limit int, handle Handler) (int, error) {
	_, _, _ = ctx, limit, handle
	return 0, nil
}

// Call names a request of a sender, whose ids ascend strictly.
type Call struct {
	// Sender is who sent it, 1 to 1024 bytes.
	Sender string
	// Generation rises when a sender begins its ids anew; 0 otherwise.
	Generation int
	// ID is above that of the sender's last call, 1 or more.
	ID int64
}

// CallHandler carries out a call inside the inbox's transaction, as a Handler does.
type CallHandler func(ctx context.Context, tx pgx.Tx) (result []byte, err error)

// Call carries out a call once: the id above the sender's last runs, the last one's repeat returns the stored result,
// an older one is refused (Outdated). A Final error is stored like a result (Dead, Err) and returned to repeats; any
// other is returned as the error and leaves everything as it was.
func (i *Inbox) Call(ctx context.Context, call Call, handle CallHandler) (Outcome, error) {
	_, _, _ = ctx, call, handle
	return Outcome{}, nil
}

// Parked is a message that waits in the inbox's table.
type Parked struct {
	Message

	// ID is the place in the order of arrival.
	ID int64
	// State is Failed, Waiting or Dead.
	State    Status
	Attempts int
	Reason   string
}

// ParkedQuery selects parked messages; an empty one selects all dead ones.
type ParkedQuery struct {
	// State is Failed, Waiting or Dead; 0 means Dead.
	State Status
	// Stream restricts to one stream; "" to none.
	Stream string
	// After is the ID behind which to begin; Limit is 1 to 10,000, 0 means 100.
	After int64
	Limit int
}

// Parked lists parked messages in the order of their arrival.
func (i *Inbox) Parked(ctx context.Context, q ParkedQuery) ([]Parked, error) {
	_, _ = ctx, q
	return nil, nil
}

// Dead lists all dead messages up to limit.
func (i *Inbox) Dead(ctx context.Context, limit int) ([]Parked, error) {
	return i.Parked(ctx, ParkedQuery{State: Dead, Limit: limit})
}

// Requeue makes dead messages due again with no attempts counted; without ids all of them. It returns how many.
func (i *Inbox) Requeue(ctx context.Context, events ...uuid.UUID) (int, error) {
	_, _ = ctx, events
	return 0, nil
}

// Skip gives a dead message up: it counts as seen, with the note for its reason, and its stream goes on.
func (i *Inbox) Skip(ctx context.Context, event uuid.UUID, note string) error {
	_, _, _ = ctx, event, note
	return nil
}

// Purge deletes records past the retention in chunks and returns how many.
func (i *Inbox) Purge(ctx context.Context) (int64, error) {
	_ = ctx
	return 0, nil
}
