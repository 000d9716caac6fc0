package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/ops/replay"
	"github.com/postrider/postrider/delivery/pgstore"
)

// tryShadow checks that a shadow replay could publish, before anything is made.
func (c *replayStartCmd) tryShadow(s *session, pool *pgxpool.Pool, spec replay.Spec) error {
	if !c.Prepare {
		if err := c.checkShape(s, pool, c.Schema); err != nil {
			return err
		}
	}
	job := replay.Job{Prefix: strings.ReplaceAll(spec.Prefix, "{id}", "0"), Stream: spec.Stream}
	done, err := c.shadow(s, pool, job, c.paceFlags, &replay.RunConfig{})
	if err == nil {
		done()
	}
	return shadowMissing(err, spec.Prefix, spec.Stream)
}

// shadowMissing adds the cure to a missing stream's error: for a shadow nobody else makes it.
func shadowMissing(err error, prefix, stream string) error {
	if !errors.Is(err, wire.ErrStreamMissing) {
		return err
	}
	return fmt.Errorf("--shadow-stream: %w: %s; create it first, with the subject %s", wire.ErrStreamMissing, stream,
		strings.ReplaceAll(prefix, "{id}", "*")+".>")
}

// shadow connects to a shadow replay's stream; done closes the connection.
func (f *replayFlags) shadow(s *session, pool *pgxpool.Pool, job replay.Job, pace paceFlags, cfg *replay.RunConfig) (done func(), err error) {
	of := streamFlags{Subject: pace.Subject}
	of.complete(f.info)
	shape, err := pace.shape(of.Subject)
	if err != nil {
		return nil, err
	}
	transforms, err := pace.transforms()
	if err != nil {
		return nil, err
	}
	prefixed, err := wire.ParseSubject(job.Prefix + "." + shape.Subject.String())
	if err != nil {
		return nil, fmt.Errorf("%w: --shadow-prefix: %w", errRefused, err)
	}
	first, _, _ := strings.Cut(job.Prefix, ".")
	if live, _, _ := strings.Cut(shape.Subject.String(), "."); first == live || first == "outbox" {
		return nil, fmt.Errorf("%w: --shadow-prefix must not begin with %s: subjects of the live stream do, and their consumers would take it for news",
			errRefused, first)
	}
	store, err := pgstore.New(s.ctx, pool, f.Schema, f.info.events)
	if err != nil {
		return nil, err
	}
	nc, apiPrefix, err := pace.connect("postrider replay", s.logger())
	if err != nil {
		return nil, err
	}
	stream, err := streams.EnsureStream(s.ctx, nc, streams.StreamConfig{Name: job.Stream, APIPrefix: apiPrefix, Subject: prefixed, Logger: s.logger()})
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("--shadow-stream: %w", err)
	}
	publisher, err := natspub.NewShadow(nc, natspub.ShadowConfig{
		Prefix: job.Prefix, Stream: job.Stream, APIPrefix: apiPrefix, Shape: shape, MaxMessageSize: streams.LargestMessage(stream.Config),
	})
	if err != nil {
		nc.Close()
		return nil, err
	}
	done = nc.Close
	cfg.Publisher = publisher
	cfg.Events, err = loop.NewEventReader(loop.Config{Transforms: transforms, MaxPayload: f.info.largestPayload(), Logger: s.logger()}, store, publisher.Capabilities)
	if err != nil {
		done()
	}
	return done, err
}

func (f *replayFlags) printPlan(out io.Writer, spec replay.Spec, p replay.Estimate) error {
	text := fmt.Sprintf("would replay %s up to sequence %d", counted(p.Selected, "event"), p.Last)
	if p.Selected > 0 {
		text += fmt.Sprintf(" (%d to %d", p.Lowest, p.Highest)
		if p.Oldest != nil && p.Newest != nil {
			text += fmt.Sprintf(", recorded %s to %s", p.Oldest.Format(time.RFC3339), p.Newest.Format(time.RFC3339))
		}
		text += ")"
	}
	if p.Waiting > 0 {
		text += fmt.Sprintf("; %s more wait in the outbox and are left out", humanize.Comma(p.Waiting))
	}
	if p.Unwanted > 0 {
		text += fmt.Sprintf("; %s were skipped or discarded by an operator and are left out", humanize.Comma(p.Unwanted))
	}
	if p.Held != "" {
		text += "; " + heldBack(p.Last, p.Held)
	}
	return answer(out, f.JSON, spec.Body(p), text)
}

func (f *replayFlags) printJob(out io.Writer, j replay.Job) error {
	var text string
	switch j.State {
	case replay.Planned:
		text = fmt.Sprintf("replay %d is planned for %s up to sequence %d; begin it with: postrider replay resume %d",
			j.ID, counted(orZero(j.Selected), "event"), j.Last, j.ID)
	case replay.Cancelled:
		text = fmt.Sprintf("replay %d is cancelled after %s events", j.ID, progressOf(j))
	case replay.Running, replay.Paused, replay.Done:
		text = fmt.Sprintf("replay %d: queued %s again under generation %d", j.ID, counted(j.Replayed, "event"), j.Generation)
		if j.Kind == replay.Retry {
			text = fmt.Sprintf("replay %d: %s begin anew", j.ID, counted(j.Replayed, "message"))
		}
		if j.Destination == replay.Shadow {
			text = fmt.Sprintf("replay %d: published %s to %s.>", j.ID, counted(j.Replayed, "event"), j.Prefix)
		}
	}
	if j.Gone > 0 {
		text += fmt.Sprintf("; %s were no longer dead or failed", humanize.Comma(j.Gone))
	}
	if j.Failed > 0 {
		text += fmt.Sprintf("; %s failed", humanize.Comma(j.Failed))
	}
	return answer(out, f.JSON, j.Body(), text)
}
