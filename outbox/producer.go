package outbox

import (
	"context"
	"embed"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

//go:embed sql/*.sql
var statements embed.FS

// Producer appends events. It holds no connection and is safe for concurrent use.
type Producer struct {
	cfg Config
	sql queries
}

type queries struct{ Append, WithoutEnqueue pg.Query }

// New returns a producer, or ErrConfig.
func New(cfg Config) (*Producer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p := &Producer{cfg: cfg.withDefaults()}
	if err := pg.Fill(statements, "sql/*.sql", "outbox", p.cfg.Schema, &p.sql); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return p, nil
}

// AppendTx appends the events, all or none, in one round trip, as part of tx. It returns one Appended per event, in their order. Several
// events of one stream get consecutive versions; ExpectedVersion is compared with the version right before its event.
//
// A pool and an idle connection are refused with ErrNoTransaction. Where tx hides that it is in no transaction, the call is one of its own:
// the events are committed at once, whatever becomes of the rest.
//
// Errors: ErrNoTransaction, ErrInvalidEvent and ErrPayloadTooLarge before anything was sent; ErrVersionConflict, ErrPayloadSchema,
// ErrDuplicateEvent and anything else from the database, after which tx can only be rolled back. No events, no round trip.
func (p *Producer) AppendTx(ctx context.Context, tx Tx, events ...Event) ([]Appended, error) {
	if len(events) == 0 {
		return nil, nil
	}
	columns, err := p.checked(tx, events)
	if err != nil {
		return nil, err
	}
	rows, err := p.sql.Append.Rows(ctx, tx, columns.arguments())
	if err != nil {
		return nil, fmt.Errorf("append: %w", classify(err))
	}
	return collect(rows, len(events))
}

// AppendSQL is AppendTx for database/sql, and so for the libraries on top of it. It sends text, and so works with the drivers of pgx, lib/pq
// and Bun, in each of their modes.
func (p *Producer) AppendSQL(ctx context.Context, tx SQLTx, events ...Event) ([]Appended, error) {
	if len(events) == 0 {
		return nil, nil
	}
	columns, err := p.checked(tx, events)
	if err != nil {
		return nil, err
	}
	arguments, err := columns.texts()
	if err != nil {
		return nil, fmt.Errorf("append: %w", err)
	}
	rows, err := p.sql.Append.SQLRows(ctx, tx, arguments)
	if err != nil {
		return nil, fmt.Errorf("append: %w", classify(err))
	}
	return collect(rows, len(events))
}

// checked returns the columns of events that may be appended in tx.
func (p *Producer) checked(tx any, events []Event) (*columns, error) {
	columns, err := p.columns(events)
	if err == nil {
		err = outside(tx)
	}
	if err != nil {
		return nil, fmt.Errorf("append: %w", err)
	}
	return columns, nil
}

// QueueAppend queues AppendTx as one statement of a batch, so that BEGIN, append and COMMIT of many transactions can travel in one round
// trip. It refuses invalid events at once and queues nothing then. done is called while the batch's results are read; an error that the
// database or done gives ends the reading and comes out of the batch.
func (p *Producer) QueueAppend(batch *pgx.Batch, done func([]Appended) error, events ...Event) error {
	if len(events) == 0 {
		return nil
	}
	columns, err := p.columns(events)
	if err != nil {
		return fmt.Errorf("append: %w", err)
	}
	p.sql.Append.Queue(batch, columns.arguments()).Query(func(rows pgx.Rows) error {
		appended, err := collect(rows, len(events))
		if err != nil {
			return err
		}
		return done(appended)
	})
	return nil
}

func collect(rows pg.Rows, events int) ([]Appended, error) {
	defer rows.Close()
	appended := make([]Appended, 0, events)
	for rows.Next() {
		var a Appended
		var placed *int16
		var id *uuid.UUID
		var version *int64
		if err := rows.Scan(&a.Sequence, &id, &version, &placed, &a.Duplicate, &a.Enqueued); err != nil {
			return nil, fmt.Errorf("append: %w", classify(err))
		}
		if id != nil && version != nil {
			a.EventID, a.StreamVersion = *id, *version
		}
		if placed != nil {
			a.Partition = partition.ID(*placed)
		}
		appended = append(appended, a)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("append: %w", classify(err))
	}
	if len(appended) != events {
		return nil, fmt.Errorf("append: the database answered for %d of %d events", len(appended), events)
	}
	return appended, nil
}
