package inbox

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/message"
)

type metrics struct {
	messages, findings, calls  *prometheus.CounterVec
	missing, malformed         prometheus.Counter
	fenced, rewinds, standing  prometheus.Counter
	ended, troubled            prometheus.Counter
	purged                     prometheus.Counter
	handler, transaction       prometheus.Histogram
	parked, oldest             *prometheus.GaugeVec
	lanes, readers, lag, reads prometheus.Gauge
	overdue                    prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer, consumer string) *metrics {
	f := promauto.With(reg)
	labels := prometheus.Labels{"consumer": consumer}
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels})
	}
	counters := func(name, help, label string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, []string{label})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels})
	}
	gauges := func(name, help string) *prometheus.GaugeVec {
		return f.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, []string{"state"})
	}
	histogram := func(name, help string) prometheus.Histogram {
		return f.NewHistogram(prometheus.HistogramOpts{
			Name: name, Help: help, ConstLabels: labels, Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		})
	}
	return &metrics{
		messages:  counters("inbox_messages_total", "Messages by what became of them.", "status"),
		findings:  counters("inbox_findings_total", "Messages and calls that something was odd about.", "finding"),
		calls:     counters("inbox_calls_total", "Calls of senders by what became of them.", "status"),
		missing:   counter("inbox_missing_versions_total", "Versions left out before a message: audit-only, skipped or discarded events."),
		malformed: counter("inbox_malformed_total", "Messages that Postrider cannot have published."),
		fenced:    counter("inbox_lane_fenced_total", "Transactions refused because their lane had another reader, or the database had forgotten its position."),
		rewinds:   counter("inbox_rewinds_total", "Times that a reader began further back, for a lane that it took."),
		standing:  counter("inbox_standstills_total", "Times that JetStream held messages and delivered none."),
		ended:     counter("inbox_handlers_ended_total", "Handlers that were begun, and whose process ended before they did."),
		troubled:  counter("inbox_lane_errors_total", "Times that messages of a lane could not be dealt with and were tried again."),
		purged:    counter("inbox_purged_total", "Records deleted after the retention."),
		handler:   histogram("inbox_handler_seconds", "Time of one call of the handler."),

		transaction: histogram("inbox_transaction_seconds", "Time of one transaction of a lane, with all its messages."),
		parked:      gauges("inbox_parked", "Messages that are parked."),
		oldest:      gauges("inbox_oldest_parked_age_seconds", "Age of the oldest parked message."),
		overdue:     gauge("inbox_handlers_overdue", "Handlers that go on although their time is over."),
		lanes:       gauge("inbox_lanes_owned", "Lanes that this reader has."),
		readers:     gauge("inbox_readers", "Readers of the consumer that are alive."),
		lag:         gauge("inbox_lag_messages", "Messages of the stream, control messages among them, behind this reader's slowest lane."),
		reads:       gauge("inbox_read_sequence", "JetStream sequence that this reader has read."),
	}
}

// report counts an outcome and logs its findings.
func (i *Inbox) report(ctx context.Context, m message.Message, o Outcome) {
	i.metrics.messages.WithLabelValues(o.Status.String()).Inc()
	i.metrics.missing.Add(float64(o.Missing))
	i.metrics.found(o.Findings)
	level := slog.LevelInfo
	switch {
	case o.Status == Dead || o.Findings&(Conflict|LowerEpoch) != 0:
		level = slog.LevelError
	case o.Status == Failed || o.Status == Outdated || o.Findings&Reversal != 0:
		level = slog.LevelWarn
	case o.Findings == 0:
		return
	}
	i.cfg.Logger.LogAttrs(ctx, level, "message of the inbox", slog.String("consumer", i.cfg.Name), slog.String("status", o.Status.String()),
		slog.String("findings", o.Findings.String()), slog.String("stream", m.Stream), slog.Int64("version", m.Version),
		slog.Int64("last_version", o.Last), slog.Int64("missing", o.Missing), slog.String("event_id", m.EventID.String()),
		slog.Int("generation", m.Generation), slog.Int("attempts", o.Attempts), slog.Any("error", o.Err))
}

func (m *metrics) found(all Finding) {
	for _, n := range findingNames {
		if all.Has(n.finding) {
			m.findings.WithLabelValues(n.name).Inc()
		}
	}
}

// count sets the gauges of parked messages.
func (i *Inbox) count(ctx context.Context) error {
	rows, err := i.sql.Count.Rows(ctx, i.db, pg.Args{"consumer": i.cfg.Name})
	if err != nil {
		return withCure(err)
	}
	counts, ages := map[string]float64{}, map[string]float64{}
	var state string
	var n int64
	var age float64
	_, err = pgx.ForEachRow(rows, []any{&state, &n, &age}, func() error {
		counts[state], ages[state] = float64(n), age
		return nil
	})
	if err != nil {
		return withCure(err)
	}
	for _, state := range []Status{Failed, Waiting, Dead} {
		i.metrics.parked.WithLabelValues(state.String()).Set(counts[state.String()])
		i.metrics.oldest.WithLabelValues(state.String()).Set(ages[state.String()])
	}
	return nil
}
