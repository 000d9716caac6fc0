package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/projection"
)

// print writes the value as JSON, or lets show write it for people.
func (p *program) print(value any, show func()) error {
	if !p.json {
		show()
		return nil
	}
	encoder := json.NewEncoder(p.out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// table writes aligned columns.
func (p *program) table(write func(row func(cells ...any))) {
	w := tabwriter.NewWriter(p.out, 0, 4, 2, ' ', 0)
	write(func(cells ...any) {
		text := make([]string, len(cells))
		for i, cell := range cells {
			text[i] = fmt.Sprint(cell)
		}
		fmt.Fprintln(w, strings.Join(text, "\t"))
	})
	_ = w.Flush() // as with other output there is nobody left to tell
}

func (p *program) summary(ctx context.Context) error {
	s, err := p.p.Summary(ctx)
	if err != nil {
		return err
	}
	return p.print(s, func() { p.showSummary(s) })
}

func (p *program) showSummary(s projection.Summary) {
	p.table(func(row func(...any)) {
		row("current", s.Current)
		row("pending", s.Pending)
		row("processing", s.Processing)
		row("failed", s.Failed)
		row("dead", s.Dead)
		row("events behind", s.EventsBehind)
		row("events behind a dead one", s.EventsBehindDead)
	})
	if r := s.OldestRetry; r != nil {
		fmt.Fprintf(p.out, "next retry: %s version %d at %s, %d failures, %s\n", r.Stream, r.Expected, clock(r.DueAt), r.Attempts, r.LastError)
	}
}

func clock(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

func (p *program) list(ctx context.Context) error {
	list, err := p.p.List(ctx, projection.State(p.state), p.limit)
	if err != nil {
		return err
	}
	return p.print(list, func() {
		p.table(func(row func(...any)) {
			row("STREAM", "STATE", "APPLIED", "WANTED", "ATTEMPTS", "DUE", "ERROR")
			for _, s := range list {
				row(s.Stream, s.State, s.Applied, s.Wanted, s.Attempts, clock(s.DueAt), s.LastError)
			}
		})
	})
}

func (p *program) requeue(ctx context.Context) error {
	if err := p.p.Requeue(ctx, p.args[0]); err != nil {
		return err
	}
	return p.requeued([]string{p.args[0]})
}

func (p *program) requeueDead(ctx context.Context) error {
	streams, err := p.p.RequeueDead(ctx, p.limit)
	if err != nil {
		return err
	}
	return p.requeued(streams)
}

func (p *program) requeued(streams []string) error {
	return p.print(map[string]any{"requeued": append([]string{}, streams...)}, func() {
		fmt.Fprintf(p.out, "%d requeued\n", len(streams))
		for _, s := range streams {
			fmt.Fprintln(p.out, s)
		}
	})
}

func (p *program) detect(ctx context.Context) error {
	report, err := p.p.Detect(ctx, p.grace)
	if err != nil {
		return err
	}
	err = p.print(report, func() {
		fmt.Fprintf(p.out, "%d streams, %d with work that is planned, %d gaps\n", report.Streams, report.Behind, len(report.Gaps))
		p.showGaps(report.Gaps)
	})
	if err == nil && len(report.Gaps) > 0 {
		err = errFound
	}
	return err
}

func (p *program) showGaps(gaps []projection.Gap) {
	p.table(func(row func(...any)) {
		if len(gaps) > 0 {
			row("STREAM", "KIND", "APPLIED", "EXPECTED", "JOURNAL")
		}
		for _, g := range gaps {
			row(g.Stream, g.Kind, g.Applied, g.Expected, g.Journal)
		}
	})
}

func (p *program) repair(ctx context.Context) error {
	report, err := p.p.Detect(ctx, p.grace)
	if err != nil {
		return err
	}
	repaired, err := p.p.Repair(ctx, report.Gaps, p.rewrite, p.progress("repaired"))
	if err != nil {
		return err
	}
	err = p.print(repaired, func() {
		fmt.Fprintf(p.out, "%d repaired, %d left\n", len(repaired.Repaired), len(repaired.Left))
		p.showGaps(repaired.Repaired)
		for _, left := range repaired.Left {
			fmt.Fprintf(p.out, "left: %s (%s): %s\n", left.Stream, left.Kind, left.Reason)
		}
	})
	if err == nil && len(repaired.Left) > 0 {
		err = errFound
	}
	return err
}

// progress says how far long work has come, every thousand streams.
func (p *program) progress(verb string) func(done, all int) {
	return func(done, all int) {
		if done%1000 == 0 {
			fmt.Fprintf(p.log, "%s %d of %d streams\n", verb, done, all)
		}
	}
}

func (p *program) integrity(ctx context.Context) error {
	report, err := p.p.CheckIntegrity(ctx, p.progress("rebuilt"))
	if err != nil {
		return err
	}
	err = p.print(report, func() {
		fmt.Fprintf(p.out, "rebuilt %d streams, %d versions, in %.1f s: %d differences\n",
			report.Streams, report.Events, report.Seconds, len(report.Differences))
		p.table(func(row func(...any)) {
			if len(report.Differences) > 0 {
				row("STREAM", "TABLE", "ROWS", "REBUILT", "ERROR")
			}
			for _, d := range report.Differences {
				row(d.Stream, d.Table, d.Rows, d.Rebuilt, d.Error)
			}
		})
	})
	if err == nil && !report.Equal {
		err = errFound
	}
	return err
}

// append is a producer. In mode inline it is also who applies: event and effect are one transaction.
func (p *program) append(ctx context.Context) error {
	producer, err := outbox.New(outbox.Config{Schema: p.journal})
	if err != nil {
		return err
	}
	inline := p.p.Mode() == projection.Inline
	if inline {
		if _, err := p.p.CatchUp(ctx, p.progress("caught up")); err != nil {
			return err
		}
	}
	ring := func() error { return nil }
	if p.nats != "" { // the relay would find the event by itself, a moment later
		nc, err := connect(p.nats, nats.Name("projection append"))
		if err != nil {
			return err
		}
		defer nc.Close()
		ring = func() error {
			return errors.Join(nc.Publish(outbox.BellSubject(p.journal), nil), nc.FlushTimeout(10*time.Second))
		}
	}
	payload := p.payload
	if payload == "" {
		payload = fmt.Sprintf(`{"commit": "by hand", "blob_before": null, "blob_after": "%x", "mode_after": "100644"}`, time.Now().UnixNano())
	}
	var appended []outbox.Appended
	err = pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		appended, err = producer.AppendTx(ctx, tx, outbox.Event{StreamID: p.args[0], Type: p.kind, Payload: []byte(payload)})
		if err == nil && inline {
			err = p.p.ApplyTx(ctx, tx, p.args[0])
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := ring(); err != nil {
		return fmt.Errorf("the event is committed, but the doorbell cannot be rung: %w", err)
	}
	result := map[string]any{"sequence": appended[0].Sequence, "version": appended[0].StreamVersion, "applied": inline}
	return p.print(result, func() {
		fmt.Fprintf(p.out, "sequence %d, version %d of %s, applied %t\n", appended[0].Sequence, appended[0].StreamVersion, p.args[0], inline)
	})
}
