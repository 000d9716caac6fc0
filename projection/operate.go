package projection

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// State is a stream's, which is that of its head: the event to be applied next.
type State string

// The states of a stream.
const (
	Current    State = "current"    // all known events were applied
	Pending    State = "pending"    // waits for a worker
	Processing State = "processing" // a worker owns it
	Failed     State = "failed"     // waits for its next attempt
	Dead       State = "dead"       // waits for a person
)

// States returns all of them.
func States() []State { return []State{Current, Pending, Processing, Failed, Dead} }

// StreamStatus is one stream of the schedule.
type StreamStatus struct {
	Stream string `json:"stream"`
	State  State  `json:"state"`
	// Applied is the watermark, Expected the version to be applied next, Wanted the highest one known.
	Applied  int64 `json:"applied_version"`
	Expected int64 `json:"expected_version"`
	Wanted   int64 `json:"wanted_version"`
	// Attempts are the failures of the head.
	Attempts  int        `json:"attempts"`
	DueAt     *time.Time `json:"due_at,omitempty"`
	DeadAt    *time.Time `json:"dead_at,omitempty"`
	AppliedAt *time.Time `json:"applied_at,omitempty"`
	Owner     *uuid.UUID `json:"owner,omitempty"`
	LeaseEnds *time.Time `json:"lease_until,omitempty"`
	LastError string     `json:"last_error,omitempty"`
}

// Summary counts the streams by state.
type Summary struct {
	Current    int64 `json:"current"`
	Pending    int64 `json:"pending"`
	Processing int64 `json:"processing"`
	Failed     int64 `json:"failed"`
	Dead       int64 `json:"dead"`
	// EventsBehind are announced and not applied; EventsBehindDead those of them that wait for a dead head, itself included.
	EventsBehind     int64 `json:"events_behind"`
	EventsBehindDead int64 `json:"events_behind_dead"`
	// OldestDead is the time of death of the head that is dead longest.
	OldestDead *time.Time `json:"oldest_dead_at,omitempty"`
	// OldestRetry is the stream that failed and is to be tried next.
	OldestRetry *StreamStatus `json:"oldest_retry,omitempty"`

	OldestDeadAge, OldestDueAge time.Duration `json:"-"`
}

// Streams returns the number of all streams.
func (s Summary) Streams() int64 { return s.Current + s.Pending + s.Processing + s.Failed + s.Dead }

// Summary counts, by the database's clock.
func (p *Projection) Summary(ctx context.Context) (Summary, error) {
	var s Summary
	var dead, due float64
	err := p.sql.Summary.Row(ctx, p.cfg.Pool, nil).Scan(&s.Current, &s.Pending, &s.Processing, &s.Failed, &s.Dead,
		&s.EventsBehind, &s.EventsBehindDead, &s.OldestDead, &dead, &due)
	if err != nil {
		return Summary{}, fmt.Errorf("summary: %w", err)
	}
	s.OldestDeadAge, s.OldestDueAge = seconds(dead), seconds(due)
	next, err := pg.Collect(ctx, p.cfg.Pool, p.sql.Eligible, nil, scanStatus)
	if err != nil {
		return Summary{}, fmt.Errorf("summary: %w", err)
	}
	if len(next) > 0 {
		s.OldestRetry = &next[0]
	}
	return s, nil
}

func seconds(n float64) time.Duration { return max(time.Duration(n*float64(time.Second)), 0) }

func scanStatus(row pgx.CollectableRow) (s StreamStatus, err error) {
	err = row.Scan(&s.Stream, &s.State, &s.Applied, &s.Expected, &s.Wanted, &s.Attempts, &s.DueAt, &s.DeadAt, &s.AppliedAt,
		&s.Owner, &s.LeaseEnds, &s.LastError)
	return s, err
}

// List returns up to limit (1 or more) streams, of one state or, with "", of all: the dead first, then by when they are due.
func (p *Projection) List(ctx context.Context, state State, limit int) ([]StreamStatus, error) {
	if limit < 1 {
		return nil, fmt.Errorf("%w: limit must be at least 1, got %d", ErrConfig, limit)
	}
	var only *State
	if state != "" {
		only = &state
	}
	list, err := pg.Collect(ctx, p.cfg.Pool, p.sql.List, pg.Args{"state": only, "limit": limit}, scanStatus)
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	return list, nil
}

// Requeue gives a dead stream its attempts back and makes it due. ErrNotDead if it is not dead.
func (p *Projection) Requeue(ctx context.Context, stream string) error {
	done, err := p.requeue(ctx, &stream, 1)
	if err == nil && len(done) == 0 {
		err = fmt.Errorf("%w: %q", ErrNotDead, stream)
	}
	return err
}

// RequeueDead requeues up to limit (1 or more) dead streams, the longest dead first, and returns their names.
func (p *Projection) RequeueDead(ctx context.Context, limit int) ([]string, error) {
	if limit < 1 {
		return nil, fmt.Errorf("%w: limit must be at least 1, got %d", ErrConfig, limit)
	}
	return p.requeue(ctx, nil, limit)
}

func (p *Projection) requeue(ctx context.Context, stream *string, limit int) ([]string, error) {
	done, err := pg.Collect(ctx, p.cfg.Pool, p.sql.Requeue, pg.Args{"stream": stream, "limit": limit}, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("requeue: %w", err)
	}
	for _, s := range done {
		p.log.InfoContext(ctx, "requeued", "stream", s)
	}
	p.ring()
	return done, nil
}
