package deployment_test

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

var (
	metricName  = regexp.MustCompile(`\b(?:outbox|process|go)_[a-z0-9_]+\b`)
	stateOf     = regexp.MustCompile(`(outbox_[a-z_]+)\{[^}]*state=~?"([a-z|]+)"`)
	sampleOf    = regexp.MustCompile(`(?m)^([a-z0-9_]+)(?:\{([^}]*)\})? `)
	histogramOf = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// scraped are the metrics of a worker that delivers, each with its sets of labels.
func scraped(t *testing.T) map[string][]string {
	t.Helper()
	c := clustertest.New(t, clustertest.Config{Partitions: 4})
	c.Backlog(t, 20)
	w := c.Start(t, 1, "--http-addr=127.0.0.1:0", "--canary=1s", "--audit=10s")[0]
	c.WaitDrained(t)
	found := map[string][]string{}
	clustertest.Until(t, "the worker has read the watermark and what holds vacuum back", func(context.Context) (bool, error) {
		clear(found)
		for _, sample := range sampleOf.FindAllStringSubmatch(metricsOf(t, w.Process), -1) { //nolint:contextcheck // it has the test's
			found[sample[1]] = append(found[sample[1]], sample[2])
		}
		return found["outbox_watermark_lag_events"] != nil && found["outbox_canary_seconds_bucket"] != nil && found["outbox_held_xmin_seconds"] != nil &&
			found["outbox_dead_by_topic"] != nil && found["outbox_oldest_pending_age_by_type_seconds"] != nil, nil
	}, nil)
	return found
}

// What the rules, the dashboard, the autoscaler and the documents name is what a real worker answers, and the other
// way round: the dashboard shows, and the documents explain, each metric of ours.
func TestMetricsExist(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	found := scraped(t)
	if found["outbox_published_total"] == nil || found["outbox_publish_latency_seconds_bucket"] == nil {
		t.Fatalf("the worker answers only %d metrics", len(found))
	}
	for _, file := range []string{
		"deploy/prometheus/alerts.yaml", "deploy/prometheus/alerts_test.yaml", "deploy/grafana/dashboard.json",
		"deploy/helm/postrider/values.yaml", "deploy/helm/postrider/templates/scaledobject.yaml", "deploy/helm/postrider/templates/hpa.yaml",
	} {
		text := read(t, file)
		for _, name := range metricName.FindAllString(text, -1) {
			if found[name] == nil && found[histogramOf.ReplaceAllString(name, "")] == nil {
				t.Errorf("%s names %s, which a worker does not have", file, name)
			}
		}
		for _, match := range stateOf.FindAllStringSubmatch(text, -1) {
			for _, state := range strings.Split(match[2], "|") {
				if !contains(found[match[1]], `state="`+state+`"`) {
					t.Errorf("%s names state %q of %s, which a worker does not have", file, state, match[1])
				}
			}
		}
	}
	dashboard, operations := read(t, "deploy/grafana/dashboard.json"), read(t, "docs/operations.md")
	for name := range found {
		if !strings.HasPrefix(name, "outbox_") {
			continue
		}
		if !strings.Contains(dashboard, name) {
			t.Errorf("the dashboard does not show %s", name)
		}
		if base := histogramOf.ReplaceAllString(name, ""); !documented(operations, base) {
			t.Errorf("docs/operations.md does not explain %s", base)
		}
	}
}

func contains(labels []string, wanted string) bool {
	for _, l := range labels {
		if strings.Contains(l, wanted) {
			return true
		}
	}
	return false
}

// documented finds a metric's name, or its end where the table shortens names of a family: `_claimed_`.
func documented(text, name string) bool {
	if strings.Contains(text, "`"+name+"`") || strings.Contains(text, "`"+name+"{") {
		return true
	}
	parts := strings.Split(name, "_")
	return len(parts) > 2 && (strings.Contains(text, "`_"+parts[len(parts)-2]+"_`") ||
		strings.Contains(text, "`_"+strings.Join(parts[len(parts)-2:], "_")+"`"))
}
