package importer

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/pg"
)

//go:embed sql/*.sql
var statements embed.FS

// Importer loads files. It is safe for concurrent use: runs share nothing but the pool. Two runs that write to the same streams at the same
// time may make each other fail with ErrVersion.
type Importer struct {
	config Config
	sql    queries
}

type queries struct{ Present, RelaxCommit pg.Query }

// New returns an importer, or an error that wraps ErrConfig.
func New(config Config) (*Importer, error) {
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	i := &Importer{config: config}
	if err := pg.Fill(statements, "sql/*.sql", "importer", config.Schema, &i.sql); err != nil {
		return nil, err
	}
	return i, nil
}

// Run imports one file; name stands for it in errors and progress. It returns its progress also when it fails: with a LineError for a faulty
// line, with the cause of an ended ctx, and with ErrUnknownOutcome for a COMMIT that was cut off.
func (i *Importer) Run(ctx context.Context, r io.Reader, name string) (Progress, error) {
	run := &run{Importer: i, name: name, started: time.Now()}
	run.pace = pace{rate: i.config.Rate}
	err := run.all(ctx, r)
	result := run.progress()
	if i.config.Progress != nil {
		i.config.Progress(result)
	}
	if err != nil {
		err = fmt.Errorf("%w (%d transactions with %d events were committed, %d events existed before)",
			err, result.Transactions, result.Events, result.Skipped)
	}
	return result, err
}

type run struct {
	*Importer
	name    string
	started time.Time
	source  *source
	conn    *pgxpool.Conn
	pace    pace

	events, skipped, transactions int
}

func (r *run) all(ctx context.Context, from io.Reader) error {
	source, err := newSource(from)
	r.source = source
	if err != nil {
		return r.at(1, err)
	}
	if r.conn, err = r.config.Pool.Acquire(ctx); err != nil {
		return fmt.Errorf("acquire a connection: %w", err)
	}
	defer r.conn.Release()
	reader := &reader{source: source}
	for {
		chunk, readErr := reader.chunk(r.pace.chunk(r.config.ChunkEvents))
		if err := r.write(ctx, chunk); err != nil {
			return err
		}
		switch {
		case errors.Is(readErr, io.EOF):
			return nil
		case readErr != nil:
			return r.at(source.line, readErr)
		}
		if r.config.Progress != nil {
			r.config.Progress(r.progress())
		}
	}
}

func (r *run) at(line int, err error) error {
	return &LineError{File: r.name, Line: line, Err: err}
}

func (r *run) progress() Progress {
	p := Progress{
		Name: r.name, Events: r.events, Skipped: r.skipped, Transactions: r.transactions,
		Elapsed: time.Since(r.started),
	}
	if r.source != nil {
		p.Lines, p.BytesRead, p.BytesTotal = r.source.line, r.source.raw.n, r.source.total
	}
	if seconds := p.Elapsed.Seconds(); seconds > 0 {
		p.EventsPerSecond = float64(p.Events) / seconds
	}
	return p
}

type place struct {
	stream  string
	version int64
}

// present returns the events of the chunk that exist already.
func (r *run) present(ctx context.Context, chunk []transaction) (map[place]bool, error) {
	var streams []string
	var versions []int64
	for _, t := range chunk {
		for _, row := range t.rows {
			streams = append(streams, row.stream)
			versions = append(versions, row.version)
		}
	}
	rows, err := r.sql.Present.Rows(ctx, r.conn, pg.Args{"streams": streams, "versions": versions})
	if err != nil {
		return nil, fmt.Errorf("look up existing events: %w", err)
	}
	found := make(map[place]bool)
	var at place
	_, err = pgx.ForEachRow(rows, []any{&at.stream, &at.version}, func() error {
		found[at] = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look up existing events: %w", err)
	}
	return found, nil
}
