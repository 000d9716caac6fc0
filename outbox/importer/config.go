package importer

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/outbox"
)

// Config has the settings of an Importer.
type Config struct {
	// Pool is the database. Required. One of its connections is in use while an import runs.
	Pool *pgxpool.Pool
	// Producer appends the events. Required.
	Producer *outbox.Producer
	// Schema holds the outbox; the same as the producer's. Defaults to "public".
	Schema string
	// Topic of events that name none. Defaults to "default".
	Topic string
	// AuditOnly stores the events and publishes none of them.
	AuditOnly bool
	// Rate limits the import to this many events a second, on average over
	// about a tenth of a second; from 0.001 up. Defaults to 0: no limit.
	Rate float64
	// ChunkEvents is about the number of events that are looked up at once and share one wait for the disk; a transaction is never cut. From
	// 1 to 100,000. Defaults to 1000.
	ChunkEvents int
	// OnCommitted, if set, gets every transaction after its commit, in order, before the next one begins.
	OnCommitted func(Transaction)
	// Progress, if set, is called after every chunk and at the end.
	Progress func(Progress)
}

// Transaction is one committed transaction of the file.
type Transaction struct {
	Number int64 // "tx" in the file
	// Events were appended; existing ones are left out. Appended has the same length and order.
	Events   []outbox.Event
	Appended []outbox.Appended
	// CommittedAt is the time of the commit's return, by this process's clock.
	CommittedAt time.Time
}

// Progress counts the work of an import.
type Progress struct {
	Name         string
	Lines        int
	Events       int // committed by this run
	Skipped      int // existed before this run
	Transactions int // committed by this run
	// BytesRead of BytesTotal, compressed where the file is; BytesTotal is 0 where the reader is not a file.
	BytesRead, BytesTotal int64
	Elapsed               time.Duration
	EventsPerSecond       float64
}

// WithDefaults fills the fields that were left zero.
func (c Config) WithDefaults() Config {
	c.Schema = cmp.Or(c.Schema, "public")
	c.Topic = cmp.Or(c.Topic, "default")
	c.ChunkEvents = cmp.Or(c.ChunkEvents, 1000)
	return c
}

// Validate refuses values outside their ranges, by name.
func (c Config) Validate() error {
	const rateMin, chunkMax = 0.001, 100_000
	switch {
	case c.Pool == nil:
		return fmt.Errorf("%w: Pool is required", ErrConfig)
	case c.Producer == nil:
		return fmt.Errorf("%w: Producer is required", ErrConfig)
	case c.Rate != 0 && (c.Rate < rateMin || math.IsInf(c.Rate, 0) || math.IsNaN(c.Rate)):
		return fmt.Errorf("%w: Rate must be 0 (no limit) or at least %v events a second, got %v", ErrConfig, rateMin, c.Rate)
	case c.ChunkEvents < 1 || c.ChunkEvents > chunkMax:
		return fmt.Errorf("%w: ChunkEvents must lie between 1 and %d, got %d", ErrConfig, chunkMax, c.ChunkEvents)
	}
	if err := pg.CheckSchema(c.Schema); err != nil {
		return fmt.Errorf("%w: Schema: %w", ErrConfig, err)
	}
	return nil
}
