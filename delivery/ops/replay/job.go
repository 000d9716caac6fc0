package replay

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/internal/pg"
)

// Job is a replay's row.
type Job struct {
	ID          int64
	Kind        JobKind
	Destination Destination
	State       State
	Actor       string
	Reason      string
	Selection   Selection
	// Prefix begins a shadow replay's subjects, with the replay's number in place; Stream is its stream.
	Prefix, Stream string
	// Position is the sequence up to which all selected events were dealt with, Last is the replay's last sequence.
	Position, Last int64
	// Selected counts its events; nil until they are counted.
	Selected *int64
	// Replayed were queued again, or acknowledged under the prefix. Gone are rows of a retry that were no longer dead or failed, Failed
	// events that cannot be published under the prefix. The three add up to Selected when it is done.
	Replayed, Gone, Failed int64
	// StreamSequence is a shadow's last noted stream position.
	StreamSequence int64
	// Generation is that of its messages.
	Generation int
	CreatedAt  time.Time
	UpdatedAt  time.Time
	FinishedAt *time.Time
	// WaitingFor is the reason for its wait, LastError its last failure.
	WaitingFor, LastError string
	// Expected is the required number of selected events; nil: any.
	Expected *int64
	// Idle is the time since the row was last changed.
	Idle time.Duration
	// Rate is as in Spec.
	Rate float64
	// Held is as in Estimate; only Create sets it.
	Held string
}

// beat lies between two updates of a waiting run's row; after dead without one it was killed.
const (
	beat = 5 * time.Second
	dead = 6 * beat
)

// Abandoned reports whether nobody runs a running replay: it was killed.
func (j Job) Abandoned() bool { return j.State == Running && j.Idle > dead }

// Waits reports whether it waits for a process that serves replays.
func (j Job) Waits() bool {
	return j.Rate > 0 && (j.State == Planned || j.State == Paused || j.Abandoned())
}

// Left counts the remaining events; -1 before they are counted.
func (j Job) Left() int64 {
	if j.Selected == nil {
		return -1
	}
	return max(0, *j.Selected-j.Replayed-j.Gone-j.Failed)
}

// Ended reports whether it is done or cancelled.
func (j Job) Ended() bool { return j.State == Done || j.State == Cancelled }

// Differs returns how a finished replay missed its promised number, since events were changed, removed or added below its last sequence
// while it ran; empty: it did not.
func (j Job) Differs() string {
	dealt := j.Replayed + j.Gone + j.Failed
	if j.State != Done || j.Selected == nil || dealt == *j.Selected {
		return ""
	}
	return fmt.Sprintf("%d events were selected and %d dealt with: the selected events were changed meanwhile", *j.Selected, dealt)
}

// Callers branch on these.
var (
	// ErrNotFound means that the replay is unknown.
	ErrNotFound = errors.New("no such replay")
	// ErrEnded means that it is done or cancelled.
	ErrEnded = errors.New("the replay has ended")
	// ErrLiveRunning means that another live replay runs, or was killed and can be resumed or cancelled.
	ErrLiveRunning = errors.New("another live replay is running")
	// ErrTaken means that another process runs the replay, or somebody ended it.
	ErrTaken = errors.New("the replay was taken over or ended by somebody else")
)

// Get returns one replay, or ErrNotFound.
func (s *Store) Get(ctx context.Context, id int64) (Job, error) {
	jobs, err := s.jobs(ctx, s.db, nil, &id, 1)
	if err == nil && len(jobs) == 0 {
		err = fmt.Errorf("%w: %d", ErrNotFound, id)
	}
	if err != nil {
		return Job{}, err
	}
	return jobs[0], nil
}

// List returns the newest replays, at most limit, with numbers below before (0: all).
func (s *Store) List(ctx context.Context, before int64, limit int) ([]Job, error) {
	var below *int64
	if before > 0 {
		below = &before
	}
	return s.jobs(ctx, s.db, below, nil, limit)
}

func (s *Store) jobs(ctx context.Context, db pg.DB, below, id *int64, limit int) ([]Job, error) {
	jobs, err := pg.Collect(ctx, db, s.sql.Jobs, pg.Args{"below": below, "id": id, "limit": limit}, func(row pgx.CollectableRow) (Job, error) {
		var j Job
		err := row.Scan(&j.ID, &j.Kind, &j.Destination, &j.State, &j.Actor, &j.Reason, &j.Selection, &j.Prefix, &j.Stream,
			&j.Position, &j.Last, &j.Selected, &j.Replayed, &j.Gone, &j.Failed, &j.StreamSequence, &j.Generation,
			&j.CreatedAt, &j.UpdatedAt, &j.FinishedAt, &j.WaitingFor, &j.LastError, &j.Idle, &j.Expected, &j.Rate)
		j.Prefix = strings.ReplaceAll(j.Prefix, "{id}", strconv.FormatInt(j.ID, 10))
		return j, err
	})
	if err != nil {
		return nil, fmt.Errorf("read replays: %w", err)
	}
	return jobs, nil
}

// Create makes a replay, counts its events and delivers nothing; the process that serves (Spec.Rate) counts its own. When expected is not
// nil and another number is selected, the replay is cancelled at once. When counting was interrupted the replay is kept; the job has its
// number then, and whoever goes on with it counts it anew and refuses another number than expected.
func (s *Store) Create(ctx context.Context, spec Spec, expected *int64, progress func(at, end int64)) (Job, error) {
	spec = spec.WithDefaults()
	if err := spec.Validate(); err != nil {
		return Job{}, err
	}
	last, held, err := s.end(ctx, spec)
	if err != nil {
		return Job{}, fmt.Errorf("replay: %w", err)
	}
	state := Planned
	if spec.Begin {
		state = Running
	}
	var id int64
	err = s.outbox.Write(ctx, func(tx pgx.Tx) error {
		generation, err := s.generation(ctx, tx)
		if err != nil {
			return err
		}
		if err := s.sql.Create.Row(ctx, tx, pg.Args{
			"kind": spec.Kind, "destination": spec.Destination, "actor": spec.Actor, "selection": spec.Selection, "reason": spec.Reason,
			"prefix": spec.Prefix, "stream": spec.Stream, "position": spec.first(), "last": last, "generation": generation, "state": state,
			"expected": expected, "rate": spec.Rate,
		}).Scan(&id); err != nil {
			return err
		}
		if err := s.name(ctx, tx, spec, id, last); err != nil {
			return err
		}
		return s.outbox.Record(ctx, tx, spec.Actor, "replay.create", target{
			ID: id, Kind: spec.Kind, Destination: spec.Destination, Selection: spec.Selection, Last: last,
		}, spec.Reason, struct {
			Generation int `json:"generation"`
		}{generation})
	})
	if pg.Refused(err, uniqueViolation) {
		return Job{}, liveRunning()
	}
	if err != nil {
		return Job{}, fmt.Errorf("make the replay: %w", err)
	}
	var j Job
	if spec.Rate > 0 {
		j, err = s.Get(ctx, id)
		s.ask()
	} else {
		j, err = s.counted(ctx, id, spec.Actor, progress)
	}
	j.ID, j.Held = id, held
	if err != nil && spec.Begin { // nobody runs it; if this fails, too, it shows after a while
		apart, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = s.outbox.Write(apart, func(tx pgx.Tx) error {
			_, err := s.sql.Finish.Exec(apart, tx, pg.Args{"id": id, "runner": nil, "state": Paused, "error": nil})
			return err
		})
	}
	return j, err
}

func liveRunning() error {
	return fmt.Errorf("%w; resume or cancel it first: `postrider replay list`", ErrLiveRunning)
}

// generation gives out the next replay's; nobody else does so before the transaction ends.
func (s *Store) generation(ctx context.Context, tx pgx.Tx) (generation int, err error) {
	if _, err := s.sql.LockReplays.Exec(ctx, tx, nil); maintenance.Busy(err) {
		return 0, fmt.Errorf("another replay is being made for more than 5 s; try again: %w", err)
	} else if err != nil {
		return 0, err
	}
	err = s.sql.Generation.Row(ctx, tx, nil).Scan(&generation)
	return generation, err
}

// name notes a replay's events by name, or those that it leaves out.
func (s *Store) name(ctx context.Context, tx pgx.Tx, spec Spec, id, last int64) error {
	if spec.Kind != Retry {
		_, err := s.sql.LeaveOut.Exec(ctx, tx, spec.Selection.among(pg.Args{
			"id": id, "after": spec.first(), "upto": last, "shadow": spec.Destination == Shadow,
		}))
		return err
	}
	chosen, err := s.troubled(ctx, tx, spec.Selection, last)
	if err == nil {
		_, err = s.sql.Choose.Exec(ctx, tx, pg.Args{"id": id, "sequences": chosen})
	}
	if err == nil {
		_, err = s.sql.SetSelected.Exec(ctx, tx, pg.Args{"id": id, "selected": len(chosen)})
	}
	return err
}

// counted makes sure that the replay is counted, and cancels it in the actor's name if its number is not the expected one.
func (s *Store) counted(ctx context.Context, id int64, actor string, progress func(at, end int64)) (Job, error) {
	j, err := s.ensureCount(ctx, id, progress)
	if err != nil || j.Expected == nil || *j.Selected == *j.Expected {
		return j, err
	}
	if _, err := s.Cancel(ctx, id, actor, "another number is selected than was expected"); err != nil {
		return j, err
	}
	return j, maintenance.Refuse("expect", "%d are selected, not %d; nothing was replayed", *j.Selected, *j.Expected)
}

// ensureCount counts a replay that was not.
func (s *Store) ensureCount(ctx context.Context, id int64, progress func(at, end int64)) (Job, error) {
	j, err := s.Get(ctx, id)
	if err != nil || j.Selected != nil {
		return j, err
	}
	beaten := time.Now()
	alive := func(at, end int64) {
		if time.Since(beaten) > beat {
			beaten = time.Now()
			_ = s.outbox.Write(ctx, func(tx pgx.Tx) error { // errors show when the count is noted
				_, err := s.sql.Touch.Exec(ctx, tx, pg.Args{"id": id})
				return err
			})
		}
		if progress != nil {
			progress(at, end)
		}
	}
	var p Estimate
	first := Spec{Selection: j.Selection}.first()
	if err := s.count(ctx, &id, Job{
		Kind: j.Kind, Destination: j.Destination, Selection: j.Selection, Last: j.Last, Position: first,
	}, &p, alive); err != nil {
		return j, fmt.Errorf("count what is selected: %w", err)
	}
	err = s.outbox.Write(ctx, func(tx pgx.Tx) error {
		_, err := s.sql.SetSelected.Exec(ctx, tx, pg.Args{"id": id, "selected": p.Selected})
		return err
	})
	if err != nil {
		return j, fmt.Errorf("note what is selected: %w", err)
	}
	return s.Get(ctx, id)
}

// target names a replay in the audit of an action.
type target struct {
	ID          int64       `json:"replay"`
	Kind        JobKind     `json:"kind"`
	Destination Destination `json:"destination"`
	Selection   Selection   `json:"selection"`
	Last        int64       `json:"to_sequence"`
}

func (j Job) target() target {
	return target{ID: j.ID, Kind: j.Kind, Destination: j.Destination, Selection: j.Selection, Last: j.Last}
}

// outcome is a replay's progress then.
type outcome struct {
	Selected   *int64 `json:"selected"`
	Replayed   int64  `json:"replayed"`
	Gone       int64  `json:"gone"`
	Failed     int64  `json:"failed"`
	Generation int    `json:"generation"`
}

func (j Job) outcome() outcome {
	return outcome{Selected: j.Selected, Replayed: j.Replayed, Gone: j.Gone, Failed: j.Failed, Generation: j.Generation}
}

// Cancel ends a replay for good, whoever runs it. Rows queued already are delivered.
func (s *Store) Cancel(ctx context.Context, id int64, actor, reason string) (Job, error) {
	if err := maintenance.CheckWords(actor, reason, false); err != nil {
		return Job{}, err
	}
	err := s.outbox.Write(ctx, func(tx pgx.Tx) error {
		tag, err := s.sql.Finish.Exec(ctx, tx, pg.Args{"id": id, "runner": nil, "state": Cancelled, "error": nil})
		if err != nil {
			return err
		}
		j, err := s.within(ctx, tx, id)
		switch {
		case err != nil:
			return err
		case tag.RowsAffected() == 0:
			return fmt.Errorf("%w: replay %d is %s", ErrEnded, id, j.State)
		}
		if _, err := s.sql.Forget.Exec(ctx, tx, pg.Args{"id": id}); err != nil {
			return err
		}
		return s.outbox.Record(ctx, tx, actor, "replay.cancel", j.target(), reason, j.outcome())
	})
	if err != nil {
		return Job{}, fmt.Errorf("cancel: %w", err)
	}
	return s.Get(ctx, id)
}

// within reads one replay in a transaction.
func (s *Store) within(ctx context.Context, tx pgx.Tx, id int64) (Job, error) {
	jobs, err := s.jobs(ctx, tx, nil, &id, 1)
	if err == nil && len(jobs) == 0 {
		err = fmt.Errorf("%w: %d", ErrNotFound, id)
	}
	if err != nil {
		return Job{}, err
	}
	return jobs[0], nil
}
