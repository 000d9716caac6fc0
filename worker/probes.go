package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/delivery/pgstore"
)

const (
	// horizonInterval is the lifetime of a reading: the fault takes minutes to grow, and each scraper asks each worker.
	horizonInterval = 15 * time.Second
	horizonTimeout  = 2 * time.Second
)

// registerProbes registers the metrics of the servers that the worker uses.
func (w *Worker) registerProbes() error {
	for _, c := range []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "outbox_broker_connected", Help: "1 while this worker is connected to NATS, else 0.",
		}, func() float64 {
			if w.nc.IsConnected() {
				return 1
			}
			return 0
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "outbox_build_info", Help: "Always 1; the label is the worker's version.",
			ConstLabels: prometheus.Labels{"version": w.cfg.Heartbeat.Version},
		}, func() float64 { return 1 }),
		newHorizonCollector(w.store.Horizon),
	} {
		if err := w.metrics.Register(c); err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
	}
	return nil
}

// horizonCollector reports how far vacuum is held back. A failed read reports nothing: a missing series can raise an alert, an old number
// cannot.
type horizonCollector struct {
	read              func(context.Context) (pgstore.Horizon, error)
	age, transactions *prometheus.Desc

	mu     sync.Mutex
	readAt time.Time
	last   pgstore.Horizon
	err    error
}

func newHorizonCollector(read func(context.Context) (pgstore.Horizon, error)) *horizonCollector {
	return &horizonCollector{
		read: read,
		age: prometheus.NewDesc("outbox_held_xmin_seconds",
			"Age of the oldest open transaction of the database, which keeps vacuum from removing dead rows.", nil, nil),
		transactions: prometheus.NewDesc("outbox_held_xmin_transactions",
			"How many transactions ago the oldest one began that sessions, standbys or replication slots must still see.", nil, nil),
	}
}

func (c *horizonCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.age
	out <- c.transactions
}

func (c *horizonCollector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readAt.IsZero() || time.Since(c.readAt) >= horizonInterval {
		ctx, cancel := context.WithTimeout(context.Background(), horizonTimeout)
		defer cancel()
		c.last, c.err = c.read(ctx)
		c.readAt = time.Now()
	}
	if c.err != nil {
		return
	}
	out <- prometheus.MustNewConstMetric(c.age, prometheus.GaugeValue, c.last.Age.Seconds())
	out <- prometheus.MustNewConstMetric(c.transactions, prometheus.GaugeValue, float64(c.last.Transactions))
}
