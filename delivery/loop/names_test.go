package loop_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/partition"
)

// labelled gathers a metric's values by its one label.
func labelled(t *testing.T, registry *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			values[m.GetLabel()[0].GetValue()] += m.GetCounter().GetValue()
		}
	}
	return values
}

// However many topics and types producers make up, metrics tell fifty of each apart, the first ones, for as long as the process lives.
func TestMetricsTellFiftyNamesApart(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.exec(t, `SELECT count(outbox_append('s', 'type-' || n % 120, '{}', topic => 'topic-' || n % 120)) FROM generate_series(0, 479) AS n`)
	b.append(t, "s", `1`, `topic => 'other'`)
	b.exec(t, `SELECT outbox_append('s', repeat('x', 200), '{}')`)
	b.acquireAll(t, b.keeper)
	registry := prometheus.NewRegistry()
	b.drain(t, b.relay(t, loop.Config{Registerer: registry}))
	for _, dimension := range []string{"topic", "type"} {
		published := labelled(t, registry, "outbox_published_by_"+dimension+"_total")
		sum := 0.0
		for _, n := range published {
			sum += n
		}
		if len(published) != delivery.NamesKept+1 || published[dimension+"-0"] != 4 || published[dimension+"-49"] != 4 || published["other"] != 482-200 || sum != 482 {
			t.Errorf("by %s %d values, %v in all: %v", dimension, len(published), sum, published)
		}
		if failed := labelled(t, registry, "outbox_failed_by_"+dimension+"_total"); len(failed) != len(published) || failed[dimension+"-0"] != 0 {
			t.Errorf("failed by %s: %v", dimension, failed)
		}
	}
}

func TestHostileNamesAreOther(t *testing.T) {
	t.Parallel()
	var names delivery.Names
	for _, name := range []string{"", "a\nb", "a\x00", "\xff\xfe", "\u202eabc", "a\u0085", strings.Repeat("x", 129), "other"} {
		if label := names.Label(name); label != delivery.OtherName {
			t.Errorf("%q is shown as %q", name, label)
		}
	}
	for _, name := range []string{`a"b\c{}`, "Bestellung aufgegeben", "naïve", strings.Repeat("x", 128)} {
		if label := names.Label(name); label != name {
			t.Errorf("%q is shown as %q", name, label)
		}
	}
	if kept := names.Kept(); len(kept) != 4 {
		t.Errorf("kept are %q", kept)
	}
}

func TestDeadAndOldestByName(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.exec(t, `SELECT count(outbox_append('s-' || n, CASE WHEN n % 2 = 0 THEN 'even' ELSE 'odd' END, '{}', topic => 't-' || n / 10)) FROM generate_series(0, 29) AS n`)
	b.exec(t, `UPDATE outbox SET parked = true, dead_at = clock_timestamp() WHERE topic = 't-2' OR stream_id = 's-0'`)
	b.exec(t, `UPDATE outbox SET available_at = clock_timestamp() - interval '90 s' WHERE stream_id = 's-3'`)
	var topics, types delivery.Names
	start := map[partition.ID]int64{0: 0, 1: 0}
	read := func() pgstore.Named {
		t.Helper()
		n, err := b.store.Named(t.Context(), start, &topics, &types)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := read()
	if d := []int64{n.ByTopic["t-0"].Dead, n.ByTopic["t-1"].Dead, n.ByTopic["t-2"].Dead, n.ByTopic["other"].Dead, n.ByType["even"].Dead, n.ByType["odd"].Dead}; d[0] != 1 || d[1] != 0 || d[2] != 10 || d[3] != 0 || d[4] != 6 || d[5] != 5 {
		t.Errorf("dead are %v", d)
	}
	for label, long := range map[string]bool{"t-0": true, "t-1": false, "t-2": false} {
		if share := n.ByTopic[label]; share.Oldest.Seconds() > 80 != long || share.Oldest > 0 != (label != "t-2") || share.Unknown {
			t.Errorf("%s: %+v", label, share)
		}
	}
	if n.ByType["odd"].Oldest.Seconds() < 80 || n.ByType["even"].Oldest.Seconds() > 80 {
		t.Errorf("by type: %+v", n.ByType)
	}
	// What was told apart stays, whatever else dies.
	b.exec(t, `SELECT count(outbox_append('x-' || n, 'kind-' || n, '{}', topic => 'x-' || lpad(n::text, 3, '0'))) FROM generate_series(0, 299) AS n`)
	b.exec(t, `UPDATE outbox SET parked = true, dead_at = clock_timestamp() WHERE topic LIKE 'x-%'`)
	b.exec(t, `DELETE FROM outbox WHERE topic = 't-2'`)
	n = read()
	if len(n.ByTopic) != delivery.NamesKept+1 || n.ByTopic["t-2"].Dead != 0 || n.ByTopic["x-000"].Dead != 1 || n.ByTopic["x-046"].Dead != 1 || n.ByTopic["other"].Dead != 253 {
		t.Errorf("%d topics, t-2 %+v, other %+v", len(n.ByTopic), n.ByTopic["t-2"], n.ByTopic["other"])
	}
	if _, kept := n.ByTopic["t-2"]; !kept || len(n.ByType) != delivery.NamesKept+1 {
		t.Errorf("%d types", len(n.ByType))
	}
	// Behind thousands of others a topic is not seen, and nothing is said of it.
	b.exec(t, `DELETE FROM outbox`)
	b.exec(t, `SELECT count(outbox_append('f', 'even', '{}', topic => 't-0')) FROM generate_series(1, 5000)`)
	b.exec(t, `SELECT outbox_append('f', 'odd', '{}', topic => 't-1')`)
	if n = read(); !n.ByTopic["t-1"].Unknown || !n.ByType["odd"].Unknown || n.ByTopic["t-0"].Oldest == 0 || n.ByTopic["t-0"].Unknown {
		t.Errorf("t-0 %+v, t-1 %+v, odd %+v", n.ByTopic["t-0"], n.ByTopic["t-1"], n.ByType["odd"])
	}
}
