package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/internal/ledger"
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
			d.committed(ctx, t.Events, t.Appended, t.CommittedAt)
			ring()
		},
	})
	if err != nil {
		return err
	}
	for _, name := range d.cmd.Import {
		result, err := importFile(ctx, im, name)
		progress.end()
		if err != nil {
			if ctx.Err() != nil {
				return nil // stopped by the user: report what there is
			}
			return err
		}
		d.say("Imported     %s: %d events in %d transactions, %d were there already, %.0f events/s",
			name, result.Events, result.Transactions, result.Skipped, result.EventsPerSecond)
	}
	return nil
}

// committed enters events into the ledger.
func (d *dev) committed(ctx context.Context, events []outbox.Event, appended []outbox.Appended, at time.Time) {
	entries := make([]ledger.Entry, 0, len(events))
	for i, e := range events {
		if a := appended[i]; a.Enqueued {
			entries = append(entries, ledger.Entry{
				EventID: a.EventID, Stream: e.StreamID, Version: a.StreamVersion, Sequence: a.Sequence,
				Partition: a.Partition, BodyHash: ledger.HashBody(d.published(ctx, e)),
			})
		}
	}
	d.ledger.Committed(entries, at)
}

// published is the payload as the workers publish it. One that they refuse is entered as it is.
func (d *dev) published(ctx context.Context, e outbox.Event) []byte {
	if len(d.transforms) == 0 {
		return e.Payload
	}
	draft := delivery.Draft{Stream: e.StreamID, Type: e.Type, Topic: e.Topic, TenantID: e.TenantID, Payload: e.Payload}
	changed, err := delivery.TryTransforms(ctx, draft, 0, d.transforms...)
	if err != nil {
		return e.Payload
	}
	return changed.Payload
}

// generatedStreams is how many streams generated events spread over.
const generatedStreams = 500

// generate appends events of a made-up shop, one to four a transaction.
func (d *dev) generate(ctx context.Context) error {
	rate := d.cmd.Rate
	if rate == 0 {
		rate = 100
	}
	producer, err := outbox.New(outbox.Config{Schema: d.cmd.Schema})
	if err != nil {
		return err
	}
	ring := ringer(d.nc, d.cmd.Schema)
	d.say("Generating   %g events/s; Ctrl-C ends", rate)
	types := []string{"order.placed", "order.paid", "order.packed", "order.shipped"}
	start, made := time.Now(), 0
	for ctx.Err() == nil {
		events := make([]outbox.Event, 1+rand.IntN(4))
		for i := range events {
			order := rand.IntN(generatedStreams)
			events[i] = outbox.Event{
				StreamID: fmt.Sprintf("order-%d", order), Type: types[rand.IntN(len(types))], Topic: "shop",
				Payload: fmt.Appendf(nil, `{"order":%d,"n":%d}`, order, made+i),
			}
		}
		if err := d.appendOne(ctx, producer, events); err != nil {
			if ctx.Err() != nil {
				return nil // stopped by the user
			}
			return err
		}
		ring()
		made += len(events)
		due := start.Add(time.Duration(float64(made) / rate * float64(time.Second)))
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(due)):
		}
	}
	return nil
}

func (d *dev) appendOne(ctx context.Context, producer *outbox.Producer, events []outbox.Event) error {
	tx, err := d.pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	appended, err := producer.AppendTx(ctx, tx, events...)
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	// A commit that is begun is waited for: its outcome belongs into the ledger.
	if err := tx.Commit(context.WithoutCancel(ctx)); err != nil {
		return errors.Join(errors.New("generate: the commit's outcome is unknown"), err)
	}
	d.committed(ctx, events, appended, time.Now())
	return nil
}
