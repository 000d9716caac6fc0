package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/delivery/shape"
	"github.com/postrider/postrider/internal/chaos"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/outbox/importer"
)

// produce imports the files, or generates events until the context ends.
func (d *dev) produce(ctx context.Context) error {
	if len(d.cmd.Import) == 0 {
		return d.generate(ctx)
	}
	progress := newProgressLine(d.session.stderr, d.cmd.JSON)
	ring := ringer(d.nc, d.cmd.Schema)
	im, err := newImporter(d.pool, d.cmd.Schema, importer.Config{
		Progress: progress.show,
		OnCommitted: func(t importer.Transaction) {
			d.ledger.Committed((&chaos.Load{Published: d.published}).Entries(ctx, t.Events, t.Appended), t.CommittedAt)
			ring()
		},
	})
	if err != nil {
		return err
	}
	for _, name := range d.cmd.Import {
		result, err := importFile(ctx, im, name)
		progress.clear()
		switch {
		case err != nil && ctx.Err() != nil:
			return nil // stopped by the user: the report follows
		case err != nil && d.postgres != nil && !d.cmd.ExitWhenDrained:
			d.log.Error("the rest of the file is passed over", "error", fmt.Errorf("%s: %w", name, err)) // the database with the imported events is still of use
			continue
		case err != nil:
			return err
		}
		d.say("Imported     %s: %d events in %d transactions, %d were there already, %.0f events/s",
			name, result.Events, result.Transactions, result.Skipped, result.EventsPerSecond)
	}
	return nil
}

// published returns the payload as workers publish it, unchanged where they refuse it.
func (d *dev) published(ctx context.Context, e outbox.Event) []byte {
	if len(d.transforms) == 0 {
		return e.Payload
	}
	draft := shape.Draft{Stream: e.StreamID, Type: e.Type, Topic: e.Topic, TenantID: e.TenantID, Payload: e.Payload}
	changed, err := shape.TryTransforms(ctx, draft, 0, d.transforms...)
	if err != nil {
		return e.Payload
	}
	return changed.Payload
}

// defaultRate is the default number of generated events a second.
const defaultRate = 100

// generate appends events of a made-up shop, one to four a transaction.
func (d *dev) generate(ctx context.Context) error {
	load, err := d.load(d.cmd.rate(defaultRate))
	if err != nil {
		return err
	}
	d.say("Generating   %g events/s; Ctrl-C ends", load.Rate)
	ctx, stop := context.WithCancel(ctx)
	var telling sync.WaitGroup
	defer telling.Wait()
	defer stop()
	if d.cmd.Workers == 0 {
		telling.Go(func() { d.tell(ctx) })
	}
	return load.Run(ctx)
}

const (
	// tellEvery is the interval of reports while workers elsewhere are checked.
	tellEvery = 2 * time.Second
	// lostAfter is the time after which an event under way counts as lost: any takeover is over by then.
	lostAfter = time.Minute
)

// tell prints the counts until the context ends.
func (d *dev) tell(ctx context.Context) {
	ticker := time.NewTicker(tellEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			r, lost := d.checker.Report(), d.checker.Overdue(now.Add(-lostAfter))
			d.say("committed %d, received %d, under way %d, lost %d, reordered %d, duplicates %d",
				r.Committed, r.Received, r.Lost-lost, lost, r.Reordered, r.Duplicates)
		}
	}
}

const (
	// drainGrace bounds an interrupted run's wait for events under way.
	drainGrace = 15 * time.Second
	// standsAfter is the silence after which drained asks whether anything is still to come.
	standsAfter = 5 * time.Second
)

// drained waits until every event was received, or the rest is dead or blocked, and prints the progress. After an interruption it
// waits for drainGrace.
func (d *dev) drained(ctx, interrupt context.Context) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	interrupted := interrupt.Done()
	var late <-chan time.Time
	last, since := 0, time.Now()
	for {
		select {
		case <-d.checker.Drained():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-interrupted:
			interrupted, late = nil, time.After(drainGrace)
		case <-late:
			return fmt.Errorf("interrupted: not everything was received within %s", drainGrace)
		case now := <-ticker.C:
			r := d.checker.Report()
			d.say("received %d of %d", r.Received, r.Committed)
			if r.Received > last {
				last, since = r.Received, now
			}
			if d.cmd.ExitWhenDrained && now.Sub(since) >= standsAfter {
				if err := d.stands(ctx); err != nil {
					return err
				}
			}
		}
	}
}

// stands returns an error if there are dead events and none to be tried, so that nothing more comes.
func (d *dev) stands(ctx context.Context) error {
	look := lookFlags{databaseFlags: databaseFlags{DatabaseURL: d.databaseURL, Schema: d.cmd.Schema}, Assignment: d.cmd.Assignment}
	snapshot, _, err := look.look(ctx)
	sum := snapshot.Summary()
	if err != nil || sum.Dead == 0 || sum.Pending+sum.Failed > 0 {
		return err
	}
	d.held = int(sum.Dead + sum.Blocked)
	return fmt.Errorf("dead: %s, with %s behind; `postrider dead list` says why while a run without --exit-when-drained stays up",
		counted(sum.Dead, "event"), counted(sum.Blocked, "event"))
}

func (d *dev) load(rate float64) (*chaos.Load, error) {
	producer, err := outbox.New(outbox.Config{Schema: d.cmd.Schema})
	if err != nil {
		return nil, err
	}
	return &chaos.Load{
		Pool: d.pool, Producer: producer, Ledger: d.ledger, Rate: rate, Published: d.published, Ring: ringer(d.nc, d.cmd.Schema),
		Outages: d.cmd.Workers == 0, // servers of others may be broken on purpose
		Refused: d.refused(),
	}, nil
}

// refused logs each refusal of generated events once: types registered by users of dev, or their triggers, may refuse some.
func (d *dev) refused() func(error) {
	var told sync.Map
	return func(err error) {
		reason := err.Error()
		if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
			reason = answer.Code + answer.ConstraintName
		}
		if _, before := told.LoadOrStore(reason, true); !before {
			d.log.Warn("the database refuses some generated events; the others go on", "error", err)
		}
	}
}
