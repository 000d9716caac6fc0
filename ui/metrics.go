package ui

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/delivery/pgstore"
)

// Collector reports the cluster's state as gauges, from the cache that the page
// uses. Every replica reports the same numbers, so aggregate with max, not sum.
// No label grows with workers, partitions or streams; topics and types have at most 50 values each, and other for the rest.
type Collector struct {
	cache *Cache

	pending, scheduled, oldest, failed, dead, blocked, workers, partitions, paused, age, counts *prometheus.Desc

	lagEvents, lagTime, holders, waiting, faults *prometheus.Desc

	deadByTopic, oldestByTopic, deadByType, oldestByType *prometheus.Desc
}

// NewCollector returns a collector to be registered by the caller.
func NewCollector(cache *Cache) *Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &Collector{
		cache:     cache,
		pending:   desc("outbox_pending", "Events that may be published now and are not yet."),
		scheduled: desc("outbox_scheduled", "Events that wait for the time for which they were scheduled."),
		oldest:    desc("outbox_oldest_pending_age_seconds", "Age of the oldest pending event; 0 when none is pending."),
		failed:    desc("outbox_failed", "Events whose last attempt failed and that will be tried again."),
		dead:      desc("outbox_dead", "Events given up; they need an operator."),
		blocked:   desc("outbox_blocked", "Events that wait behind a failed or dead one."),
		workers:   desc("outbox_workers", "Registered workers by state.", "state"),
		partitions: desc("outbox_partitions",
			"Partitions by state; owned and unowned add up to all, paused ones are counted once more.", "state"),
		paused: desc("outbox_paused_partitions", "Partitions that are paused."),
		age:    desc("outbox_snapshot_age_seconds", "Age of the snapshot behind the outbox gauges."),
		counts: desc("outbox_counts_age_seconds",
			"How much older than the snapshot the counts of events are; the age of the oldest pending event is read apart from them."),
		waiting: desc("outbox_waiting_partitions", "Partitions in which something keeps events waiting, by its kind.", "reason"),
		faults: desc("outbox_write_faults",
			"Why writes fail or have no events, as `postrider status` names it: sequences behind their tables, captured tables.", "kind"),
		lagEvents: desc("outbox_watermark_lag_events",
			"Sequences between the safe watermark and the highest visible one; missing while no worker uses the watermark."),
		lagTime: desc("outbox_watermark_lag_seconds", "How long open transactions have held the safe watermark back; 0 without one."),
		holders: desc("outbox_watermark_holders", "Open transactions that hold the safe watermark back; `postrider status` names them."),

		deadByTopic: desc("outbox_dead_by_topic", "Events given up, by topic; at most 50 of them, the rest is other.", "topic"),
		deadByType: desc("outbox_dead_by_type",
			"Events given up, by type; at most 50 of them, the rest is other. Above 10,000 dead events the types of so many are told apart.", "type"),
		oldestByTopic: desc("outbox_oldest_pending_age_by_topic_seconds",
			"Age of the oldest pending event of the topic among the first of each partition; missing while only later ones may be pending.", "topic"),
		oldestByType: desc("outbox_oldest_pending_age_by_type_seconds",
			"Age of the oldest pending event of the type among the first of each partition; missing while only later ones may be pending.", "type"),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		c.pending, c.scheduled, c.oldest, c.failed, c.dead, c.blocked, c.workers, c.partitions, c.paused, c.age, c.counts, c.lagEvents, c.lagTime,
		c.holders, c.waiting, c.faults,
		c.deadByTopic, c.oldestByTopic, c.deadByType, c.oldestByType,
	} {
		out <- desc
	}
}

// Collect implements prometheus.Collector. Of a stale snapshot it reports the age alone, or nothing: a missing series can raise an alert, an
// old number cannot.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	seen, err := c.cache.Observe(context.Background())
	if err != nil {
		return
	}
	gauge(c.age, seen.Age.Seconds())
	if seen.Stale {
		return
	}
	gauge(c.counts, seen.CountsAge().Seconds())
	sum := seen.Summary()
	gauge(c.pending, float64(sum.Pending))
	gauge(c.scheduled, float64(sum.Scheduled))
	gauge(c.oldest, sum.OldestPending.Seconds())
	gauge(c.failed, float64(sum.Failed))
	gauge(c.dead, float64(sum.Dead))
	gauge(c.blocked, float64(sum.Blocked))
	gauge(c.workers, float64(sum.ActiveWorkers), string(WorkerActive))
	gauge(c.workers, float64(sum.DrainingWorkers), string(WorkerDraining))
	gauge(c.workers, float64(sum.StaleWorkers), string(WorkerStale))
	gauge(c.partitions, float64(sum.OwnedPartitions), "owned")
	gauge(c.partitions, float64(sum.UnownedPartitions), "unowned")
	gauge(c.partitions, float64(sum.PausedPartitions), "paused")
	gauge(c.paused, float64(sum.PausedPartitions))
	if named := seen.Named; named != nil {
		shares(gauge, c.deadByTopic, c.oldestByTopic, named.ByTopic)
		shares(gauge, c.deadByType, c.oldestByType, named.ByType)
	}
	faults := map[string]int{}
	for _, f := range seen.WriteFaults {
		faults[f.Precondition]++
	}
	for _, kind := range pgstore.WriteFaultKinds() {
		if seen.WriteFaults != nil {
			gauge(c.faults, float64(faults[kind]), kind)
		}
	}
	waiting := map[string]int{}
	for _, w := range seen.Waits() {
		waiting[w.Reason] = len(w.Partitions)
	}
	for _, reason := range WaitReasons() {
		gauge(c.waiting, float64(waiting[reason]), reason)
	}
	watermark := seen.Watermark
	state := watermark.State()
	if state == WatermarkUnknown {
		return
	}
	gauge(c.lagTime, watermark.Waiting.Seconds())
	gauge(c.holders, float64(len(watermark.Holders)))
	if state != WatermarkUnused {
		gauge(c.lagEvents, float64(watermark.Lag()))
	}
}

func shares(gauge func(*prometheus.Desc, float64, ...string), dead, oldest *prometheus.Desc, of map[string]pgstore.Share) {
	for label, share := range of {
		gauge(dead, float64(share.Dead), label)
		if !share.Unknown {
			gauge(oldest, share.Oldest.Seconds(), label)
		}
	}
}
