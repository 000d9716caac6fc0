package replay

import (
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider/internal/pg"
)

// pacer keeps the events of a run below a rate.
type pacer struct {
	rate  float64
	began time.Time // the step
	due   time.Time // when the next step may begin
}

// add notes that the step dealt with n events. The step's own time counts; unused time is not made up for.
func (p *pacer) add(n int64) {
	if p.rate <= 0 || n == 0 {
		return
	}
	p.due = p.began.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
}

// wait waits for the next step's time.
func (p *pacer) wait(ctx context.Context) error {
	err := pause(ctx, time.Until(p.due))
	p.began = time.Now()
	return err
}

// stepSize bounds the events of the next step: a tenth of a second's.
func (r *run) stepSize() int {
	if r.cfg.Rate <= 0 {
		return r.cfg.BatchSize
	}
	return max(1, min(r.cfg.BatchSize, int(r.cfg.Rate/10)))
}

// pending is the outbox's backlog at the last look, plus later additions.
type pending struct {
	rows int64
	at   time.Time
	took time.Duration
}

// A look at the backlog is good for lookAgain, or lookShare times its duration.
const (
	lookAgain = 500 * time.Millisecond
	lookShare = 20
)

// crowded returns why the outbox has no room for a step; empty: it has.
func (r *run) crowded(ctx context.Context) (string, error) {
	size := int64(min(r.stepSize(), r.cfg.MaxPending))
	most := int64(r.cfg.MaxPending)
	full, age := r.looked.rows+size > most, time.Since(r.looked.at)
	if age > lookShare*r.looked.took && (full || age > lookAgain) {
		began := time.Now()
		var rows int64
		if err := r.sql.Backlog.Row(ctx, r.db, pg.Args{"most": most + 1}).Scan(&rows); err != nil {
			return "", fmt.Errorf("look at the backlog: %w", err)
		}
		r.looked = pending{rows: rows, at: time.Now(), took: time.Since(began)}
	}
	if r.looked.rows+size > most {
		return fmt.Sprintf("the outbox holds %d rows that can be published (--max-pending %d)", r.looked.rows, most), nil
	}
	return "", nil
}
