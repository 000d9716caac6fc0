package gaps

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/postrider/postrider/partition"
)

// AuditConfig bounds and wires a worker's audits of the stream.
type AuditConfig struct {
	// Every is the time within which a loss is found: an audit begins twice in it, and takes up to a quarter.
	Every time.Duration
	// Leads returns a context while this worker audits for the cluster; nil: another one does. Its end ends an audit.
	Leads func() context.Context
	// Republish queues missing messages again; otherwise they are reported.
	Republish bool
	// Unfit returns the reason against queueing anything now; nil: none.
	Unfit func(context.Context) error
	// Alarm receives a loss.
	Alarm func(error)
	// Name is the stream's.
	Name       string
	Registerer prometheus.Registerer
	Logger     *slog.Logger
}

// Auditor looks again and again for messages that the stream has lost in its middle.
type Auditor struct {
	AuditConfig
	store  *Store
	stream Stream
	told   map[int64]uint64 // losses that were reported: sequences and positions

	compared, missing, ended prometheus.Gauge
}

// NewAuditor returns an auditor of the stream, for a configuration that is whole. Run it once.
func NewAuditor(store *Store, stream Stream, cfg AuditConfig) *Auditor {
	gauge := func(name, help string) prometheus.Gauge {
		return promauto.With(cfg.Registerer).NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	return &Auditor{
		AuditConfig: cfg, store: store, stream: stream,
		compared: gauge("outbox_audit_compared_events", "Messages of the stream that this worker's last audit compared."),
		missing:  gauge("outbox_audit_missing_events", "Events that this worker's last audit missed in the middle of the stream."),
		ended:    gauge("outbox_audit_ended_timestamp_seconds", "When this worker's last audit ended, as Unix time; 0: it has made none."),
	}
}

// Run audits until the context ends. An audit that fails is begun again.
func (a *Auditor) Run(ctx context.Context) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for due := (time.Time{}); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		leads, began := a.Leads(), time.Now()
		switch {
		case leads == nil:
			due = time.Time{}
		case due.IsZero(): // whoever led before may have been at it
			due = began.Add(a.Every / 8)
		}
		if leads == nil || began.Before(due) {
			continue
		}
		left, err := a.audit(ctx, leads)
		wait := max(a.Every/8, a.Every/2-time.Since(began))
		if err != nil || left > 0 {
			wait = a.Every / 8
		}
		due = time.Now().Add(wait)
		if err != nil && ctx.Err() == nil && leads.Err() == nil {
			a.Logger.Warn("an audit of the stream ended early; it begins again", "again_in", wait, "error", err)
		}
	}
}

// audit compares the stream with the history once. left counts losses beyond the limit of one repair.
func (a *Auditor) audit(ctx, leads context.Context) (left int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(leads, cancel)()
	c := &certificate{began: time.Now(), lines: map[partition.ID]*certified{}}
	store, err := a.store.again(ctx) // its relation's columns may have changed
	if err != nil {
		return 0, err
	}
	var unfit error
	done, err := store.Repair(ctx, Repair{
		Options: Options{Kinds: []GapKind{NotInStream}, middle: true, compared: c.add, Progress: a.pace(ctx)},
		Actor:   "postrider", Reason: "an audit misses them in the middle of the stream", DryRun: !a.Republish,
		Confirm: func(found []Gap) error {
			a.alarm(found)
			if unfit = a.Unfit(ctx); unfit != nil {
				a.Logger.Warn("lost messages are not queued again", "why", unfit)
			}
			return unfit
		},
	}, a.stream)
	switch {
	case err != nil && unfit == nil:
		return 0, err
	case done.Report.Counts[NotInStream] == 0:
		a.told = nil
	case !a.Republish:
		a.alarm(done.Queued)
		done.Queued = nil
	}
	if n := len(done.Queued); n > 0 {
		left = done.Left
		a.Logger.Warn("lost messages are queued again", "lost", done.Report.Counts[NotInStream], "queued", n)
	}
	if err := store.outbox.Write(ctx, func(tx pgx.Tx) error {
		return store.outbox.Record(ctx, tx, "postrider", "stream.audit", map[string]string{"stream": a.Name}, "", c.body(done))
	}); err != nil {
		return left, err
	}
	a.compared.Set(float64(c.count))
	a.missing.Set(float64(done.Report.Counts[NotInStream]))
	a.ended.SetToCurrentTime()
	return left, nil
}

// alarm reports losses, unless all of them were reported before.
func (a *Auditor) alarm(found []Gap) {
	told, news := make(map[int64]uint64, len(found)), 0
	for _, g := range found {
		if told[g.Sequence] = g.Position; a.told[g.Sequence] != g.Position {
			news++
		}
	}
	if a.told = told; news == 0 {
		return
	}
	first := found[0]
	a.Logger.Error("THE STREAM HAS LOST ACKNOWLEDGED MESSAGES: they are missing in its middle",
		"stream", a.Name, "lost", len(found), "sequence", first.Sequence, "stream_sequence", first.Position)
	a.Alarm(fmt.Errorf("stream %s lost %d acknowledged messages in its middle, event %d at position %d among them", a.Name, len(found), first.Sequence, first.Position))
}

// pace rests after each page for the time that the page took, and until the audit is no more ahead of a quarter of Every. A rest lasts at
// most a second, since the audit must hear the broker.
func (a *Auditor) pace(ctx context.Context) func(what string, at, end int64) {
	began := time.Now()
	last := began
	return func(what string, at, end int64) {
		done := float64(at) / float64(max(end, 1))
		if what != "messages" { // the history comes second
			done++
		}
		ahead := time.Duration(done/2*float64(a.Every/4)) - time.Since(began)
		select {
		case <-ctx.Done():
		case <-time.After(min(max(ahead, time.Since(last)), time.Second)):
		}
		last = time.Now()
	}
}
