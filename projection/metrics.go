package projection

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the projection's, with its schema as constant label. No label grows with streams.
type metrics struct {
	applied, audit, failed, died, lost, announced, found, repaired prometheus.Counter

	streams                            *prometheus.GaugeVec
	dead, behind, waiting, oldest, age prometheus.Gauge

	latency prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer, schema string) (*metrics, error) {
	labels := prometheus.Labels{"projection": schema}
	var all []prometheus.Collector
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "outbox_projection_" + name, Help: help, ConstLabels: labels})
		all = append(all, c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "outbox_projection_" + name, Help: help, ConstLabels: labels})
		all = append(all, g)
		return g
	}
	m := &metrics{
		applied:   counter("applied_total", "Events applied and committed."),
		audit:     counter("audit_only_total", "Audit-only events that the watermark passed."),
		failed:    counter("failures_total", "Events that could not be applied, each time."),
		died:      counter("died_total", "Heads of streams given up by this process."),
		lost:      counter("lost_leases_total", "Batches undone because the stream had another owner."),
		announced: counter("announced_total", "Messages whose news are in the schedule."),
		found:     counter("gaps_found_total", "Gaps found."),
		repaired:  counter("gaps_repaired_total", "Gaps repaired."),
		dead:      gauge("dead_heads", "Streams that stand still behind a dead event, until a person requeues it."),
		behind:    gauge("pending_events", "Events announced and not yet applied."),
		waiting:   gauge("dead_waiting_events", "Events announced that wait behind a dead one."),
		oldest:    gauge("oldest_dead_age_seconds", "Age of the oldest dead head; 0 without one."),
		age:       gauge("oldest_due_age_seconds", "How long the stream that is longest due has been waiting; 0 without one."),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "outbox_projection_streams", Help: "Streams by state.", ConstLabels: labels,
		}, []string{"state"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "outbox_projection_latency_seconds", Help: "From an event's recording to its commit in the projection.", ConstLabels: labels,
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 16),
		}),
	}
	all = append(all, m.streams, m.latency)
	if registerer == nil {
		return m, nil
	}
	for _, c := range all {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) count(events []Event) {
	for _, e := range events {
		if e.audit {
			m.audit.Inc()
			continue
		}
		m.applied.Inc()
		m.latency.Observe(e.seconds + time.Since(e.read).Seconds())
	}
}

func (m *metrics) show(s Summary) {
	for state, n := range map[State]int64{Current: s.Current, Pending: s.Pending, Processing: s.Processing, Failed: s.Failed, Dead: s.Dead} {
		m.streams.WithLabelValues(string(state)).Set(float64(n))
	}
	m.dead.Set(float64(s.Dead))
	m.behind.Set(float64(s.EventsBehind))
	m.waiting.Set(float64(s.EventsBehindDead))
	m.oldest.Set(s.OldestDeadAge.Seconds())
	m.age.Set(s.OldestDueAge.Seconds())
}
