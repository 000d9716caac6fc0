package deployment_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

const unit = "deploy/systemd/postrider.service"

var assignment = regexp.MustCompile(`(?m)^(\w+)=(.*)$`)

// The unit starts the program, knows its settings and its statuses, and gives it the time that it needs to stop.
func TestUnitRunsTheProgram(t *testing.T) { //nolint:paralleltest // processes run one at a time
	variables, _ := settings(t)
	text := read(t, unit)
	values := map[string]string{}
	for _, a := range assignment.FindAllStringSubmatch(text, -1) {
		values[a[1]] = a[2]
	}
	name, drain, _ := strings.Cut(values["Environment"], "=")
	if name != "POSTRIDER_DRAIN_TIMEOUT" || values["ExecStart"] != "/usr/bin/postrider run" || values["RestartPreventExitStatus"] != "2" {
		t.Errorf("the unit says %v", values)
	}
	for _, variable := range regexp.MustCompile(`\b(?:POSTRIDER|DATABASE|NATS)_[A-Z_]+\b`).FindAllString(text, -1) {
		if !variables[variable] {
			t.Errorf("the unit names %s, which the program does not know", variable)
		}
	}
	stop, err := time.ParseDuration(values["TimeoutStopSec"])
	if err != nil {
		t.Fatal(err)
	}
	checkBudget(t, unit, drain, 0, int(stop.Seconds()))
	if _, _, status := postrider(t, []string{"DATABASE_URL=postgres://localhost/x", "POSTRIDER_LEASE_TTL=1ns"}, "run"); status != 2 {
		t.Errorf("a refused setting ends the program with %d; the unit takes 2 for it", status)
	}
}

// Whatever stops a worker at 512 MiB tells the runtime the limit under which the largest events were tried.
func TestWorkersKnowTheirMemory(t *testing.T) {
	t.Parallel()
	tried := regexp.MustCompile(`GOMEMLIMIT=(\w+)`).FindStringSubmatch(read(t, "cmd/postrider/cluster_memory_test.go"))
	if tried == nil {
		t.Fatal("the test of the largest events sets no GOMEMLIMIT")
	}
	for file, limits := range map[string][]string{
		unit:                                {"Environment=GOMEMLIMIT=" + tried[1] + "\n", "MemoryMax=512M\n"},
		"deploy/helm/postrider/values.yaml": {"goMemLimit: " + tried[1] + " ", "limits: {memory: 512Mi}"},
		"deploy/compose/compose.yaml":       {"GOMEMLIMIT: " + tried[1] + "\n"},
		"docs/deployment.md":                {"`GOMEMLIMIT=" + tried[1] + "`"},
	} {
		for _, limit := range limits {
			if !strings.Contains(read(t, file), limit) {
				t.Errorf("%s does not say %q", file, limit)
			}
		}
	}
}

// systemd finds nothing wrong with the unit, and little that it may do.
func TestUnitIsConfined(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is missing")
	}
	path := write(t, "postrider.service", strings.ReplaceAll(read(t, unit), "/usr/bin/postrider", clustertest.Binary(t)))
	for _, args := range [][]string{
		{"verify", "--man=no", "--recursive-errors=no", path},
		{"security", "--offline=true", "--threshold=15", "--no-pager", path}, // 1.5 of 10
	} {
		stdout, stderr, err := execute(t, filepath.Dir(path), analyze, args...)
		if err != nil || args[0] == "verify" && stderr != "" {
			t.Errorf("systemd-analyze %s: %v\n%s%s", args[0], err, stdout, stderr)
		}
	}
}
