package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// Estimate describes a replay in advance.
type Estimate struct {
	// Selected counts the events to replay.
	Selected int64 `json:"selected"`
	// Waiting counts other matches that wait in the outbox: they are delivered without a replay, or were tried in vain (see Retry).
	Waiting int64 `json:"waiting_in_outbox"`
	// Unwanted counts other matches that an operator skipped or discarded.
	Unwanted int64 `json:"skipped_or_discarded"`
	// Last is the replay's last sequence: everything up to it is decided.
	Last int64 `json:"to_sequence"`
	// Lowest and Highest are the first and the last selected sequence, Oldest and Newest when these events were recorded.
	Lowest  int64      `json:"lowest_sequence"`
	Highest int64      `json:"highest_sequence"`
	Oldest  *time.Time `json:"oldest"`
	Newest  *time.Time `json:"newest"`
	// Held names the open transactions that keep Last below the requested end; empty: none.
	Held string `json:"held_back_by,omitempty"`
}

// window bounds the sequences of one count.
const window = 250_000

// Count estimates a replay, and changes nothing. progress, which may be nil, gets the position so far.
func (s *Store) Count(ctx context.Context, spec Spec, progress func(at, end int64)) (Estimate, error) {
	spec = spec.WithDefaults()
	if err := spec.Validate(); err != nil {
		return Estimate{}, err
	}
	last, held, err := s.end(ctx, spec)
	if err != nil {
		return Estimate{}, fmt.Errorf("replay: %w", err)
	}
	p := Estimate{Last: last, Held: held}
	if spec.Kind == Retry {
		err = s.outbox.Read(ctx, func(tx pgx.Tx) error {
			chosen, err := s.troubled(ctx, tx, spec.Selection, last)
			p.Selected = int64(len(chosen))
			if len(chosen) > 0 {
				p.Lowest, p.Highest = slices.Min(chosen), slices.Max(chosen)
			}
			return err
		})
	} else {
		err = s.count(ctx, nil, Job{
			Kind: spec.Kind, Destination: spec.Destination, Selection: spec.Selection, Last: last, Position: spec.first(),
		}, &p, progress)
	}
	if err != nil {
		return Estimate{}, fmt.Errorf("count what is selected: %w", err)
	}
	return p, nil
}

// first is the position before the first event that can be selected.
func (s Spec) first() int64 { return max(0, s.Selection.From-1) }

// count counts in windows, so that no snapshot is held for long. A replay that was made has the same count at any time.
func (s *Store) count(ctx context.Context, id *int64, j Job, p *Estimate, progress func(at, end int64)) error {
	if id == nil {
		err := s.outbox.Read(ctx, func(tx pgx.Tx) error {
			unwanted := j.Selection.among(pg.Args{"after": j.Position, "upto": j.Last})
			if err := s.sql.Unwanted.Row(ctx, tx, unwanted).Scan(&p.Unwanted); err != nil {
				return err
			}
			waiting := j.Selection.among(pg.Args{"after": j.Position, "upto": j.Last, "shadow": j.Destination == Shadow})
			return s.sql.Waiting.Row(ctx, tx, waiting).Scan(&p.Waiting)
		})
		if err != nil {
			return err
		}
	}
	for at := j.Position; at < j.Last; {
		next := j.Last
		err := s.outbox.Read(ctx, func(tx pgx.Tx) error {
			if err := s.sql.Following.Row(ctx, tx, pg.Args{"after": at, "upto": j.Last}).Scan(&at); err != nil {
				return err
			}
			next = j.windowEnd(at, window)
			ids, err := s.outbox.Partitions(ctx, tx)
			if err != nil {
				return err
			}
			var n, low, high int64
			var oldest, newest *time.Time
			count := s.sql.Count
			if j.Kind == RebuildCurrent {
				count = s.sql.CountCurrent
			}
			args := j.selected(pg.Args{"id": id, "after": at, "upto": next, "partitions": ids, "shadow": j.Destination == Shadow})
			if err := count.Row(ctx, tx, args).Scan(&n, &low, &high, &oldest, &newest); err != nil {
				return err
			}
			p.add(n, low, high, oldest, newest)
			return nil
		})
		if err != nil {
			return err
		}
		if at = next; progress != nil {
			progress(at, j.Last)
		}
	}
	return nil
}

func (p *Estimate) add(n, low, high int64, oldest, newest *time.Time) {
	if n == 0 {
		return
	}
	if p.Selected == 0 {
		p.Lowest = low
	}
	p.Selected, p.Highest = p.Selected+n, high
	if p.Oldest == nil || oldest != nil && oldest.Before(*p.Oldest) {
		p.Oldest = oldest
	}
	if p.Newest == nil || newest != nil && newest.After(*p.Newest) {
		p.Newest = newest
	}
}

// windowEnd returns the end of the next window. One stream is looked up at once.
func (j Job) windowEnd(at, size int64) int64 {
	if j.Selection.Stream != "" || j.Last-at < size {
		return j.Last
	}
	return at + size
}

// troubled lists the rows that a retry is for.
func (s *Store) troubled(ctx context.Context, tx pgx.Tx, sel Selection, last int64) ([]int64, error) {
	return pg.Collect(ctx, tx, s.sql.Troubled, sel.among(pg.Args{"after": max(0, sel.From-1), "upto": last}), pgx.RowTo[int64])
}

// These bound the wait for a selection's end: until transactions that may still fill gaps below it have ended, and messages under way are
// published.
const (
	endPatience   = 5 * time.Second
	readyPatience = time.Second
	endLook       = 20 * time.Millisecond
)

// end returns a replay's last sequence: the requested one, or the highest visible one; but no undecided one. held names the transactions
// that keep it lower.
func (s *Store) end(ctx context.Context, spec Spec) (last int64, held string, err error) {
	if err := s.known(ctx, spec.Selection.Stream); err != nil {
		return 0, "", err
	}
	highest, safe, writers, recovered, err := s.writers(ctx)
	if err != nil {
		return 0, "", err
	}
	last = highest
	if spec.Selection.To > 0 {
		last = min(last, spec.Selection.To)
	}
	for began := time.Now(); (len(writers) > 0 || recovered) && last > safe; {
		if time.Since(began) > endPatience {
			last, held = safe, holders(writers)
			break
		}
		if err := pause(ctx, endLook); err != nil {
			return 0, "", err
		}
		var now []writer
		if _, safe, now, recovered, err = s.writers(ctx); err != nil {
			return 0, "", err
		}
		writers = remaining(writers, now, recovered)
	}
	if spec.Kind == Retry {
		return last, held, nil
	}
	return last, held, s.settle(ctx, last)
}

// known refuses a stream without an event.
func (s *Store) known(ctx context.Context, stream string) error {
	if stream == "" {
		return nil
	}
	var is bool
	err := s.sql.HasStream.Row(ctx, s.db, pg.Args{"stream": stream}).Scan(&is)
	if err == nil && !is {
		err = maintenance.Refuse("stream", "names no stream of an event: %q", stream)
	}
	return err
}

// writer is a transaction that may still write: its virtual id, by which it is followed, and its process, 0 once it is prepared.
type writer struct {
	virtual string
	pid     int
}

// remaining returns the writers that are still present, in their present state. While there is a recovered one, all present ones remain.
func remaining(writers, now []writer, recovered bool) []writer {
	if recovered {
		return now
	}
	return slices.DeleteFunc(now, func(n writer) bool {
		return !slices.ContainsFunc(writers, func(w writer) bool { return w.virtual == n.virtual })
	})
}

func holders(writers []writer) string {
	var names []string
	prepared := false
	for _, w := range writers {
		if w.pid == 0 {
			prepared = true
			continue
		}
		names = append(names, fmt.Sprintf("pid %d", w.pid))
	}
	if prepared {
		names = append(names, "prepared")
	}
	return strings.Join(names, ", ")
}

// writers returns the highest visible sequence, the watermark, the transactions that may still write below the former, and whether the
// server recovered one.
func (s *Store) writers(ctx context.Context) (highest, safe int64, writers []writer, recovered bool, err error) {
	var virtual []string
	var pids []int
	if err := s.sql.Writers.Row(ctx, s.db, pg.Args{"events": s.events}).Scan(&highest, &safe, &virtual, &pids, &recovered); err != nil {
		return 0, 0, nil, false, err
	}
	for i, v := range virtual {
		writers = append(writers, writer{v, pids[i]})
	}
	return highest, safe, writers, recovered, nil
}

// settle waits a little while rows up to that sequence are ready to be published.
func (s *Store) settle(ctx context.Context, last int64) error {
	for began := time.Now(); ; {
		var ids []partition.ID
		var ready bool
		err := s.outbox.Read(ctx, func(tx pgx.Tx) (err error) {
			if ids, err = s.outbox.Partitions(ctx, tx); err == nil {
				err = s.sql.ReadyBelow.Row(ctx, tx, pg.Args{"partitions": ids, "last": last}).Scan(&ready)
			}
			return err
		})
		if err != nil || !ready || time.Since(began) > readyPatience {
			return err
		}
		if err := pause(ctx, endLook); err != nil {
			return err
		}
	}
}
