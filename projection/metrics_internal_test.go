package projection

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// The guide names the metrics that there are, and no others.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry, "x")
	if err != nil {
		t.Fatal(err)
	}
	m.show(Summary{})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../docs/projection.md")
	if err != nil {
		t.Fatal(err)
	}
	exists := map[string]bool{}
	for _, f := range families {
		exists[f.GetName()] = true
		short := "`" + strings.TrimPrefix(f.GetName(), "outbox_projection_")
		if !strings.Contains(string(text), short+"`") && !strings.Contains(string(text), short+"{") {
			t.Errorf("docs/projection.md does not name %s", f.GetName())
		}
	}
	for _, name := range regexp.MustCompile(`outbox_projection_[a-z_]+[a-z]`).FindAllString(string(text), -1) {
		if !exists[name] {
			t.Errorf("docs/projection.md names %s, which there is not", name)
		}
	}
}
