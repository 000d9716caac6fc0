package coordinator

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// register exposes the coordinator's counts. Without a registerer nothing is exposed.
func (c *Coordinator) register(reg prometheus.Registerer) {
	factory := promauto.With(reg)
	for name, m := range map[string]struct {
		help  string
		count *atomic.Int64
	}{
		"outbox_lease_acquired_total": {"Leases that this worker took.", &c.acquired},
		"outbox_lease_released_total": {"Leases that this worker gave back in good order.", &c.released},
		"outbox_lease_lost_total":     {"Leases of this worker that ended because they could not be trusted any more.", &c.lost},
	} {
		factory.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: m.help},
			func() float64 { return float64(m.count.Load()) })
	}
	factory.NewCounterFunc(prometheus.CounterOpts{Name: "outbox_clock_steps_total", Help: "How often the database's clock stepped by 10 ms or more."},
		func() float64 { return float64(c.clock.steps.Load()) })
	factory.NewGaugeFunc(prometheus.GaugeOpts{Name: "outbox_clock_skew_seconds", Help: "How far the database's clock is ahead of this worker's; below 0: behind it."},
		func() float64 { return time.Duration(c.clock.skew.Load()).Seconds() })
	factory.NewGaugeFunc(prometheus.GaugeOpts{Name: "outbox_lease_owned", Help: "Leases that this worker holds."},
		func() float64 { return float64(c.keeper.Set().Len()) })
	factory.NewGaugeFunc(prometheus.GaugeOpts{Name: "outbox_lease_desired", Help: "Leases that the last plan gives to this worker."},
		func() float64 { return float64(len(c.state.Load().Desired)) })
}
