package deployment_test

import (
	"strings"
	"testing"
	"time"
)

// stopTimeout is the bound of an orderly stop, as cmd/postrider/worker.go has it: the test below compares.
func stopTimeout(drain time.Duration) time.Duration { return 2*drain + 5*time.Second }

// checkBudget wants that a worker is never killed while it still drains: drain < the program's own bound < the time that
// it is given, less the pause before.
func checkBudget(t *testing.T, where, drain string, pause, grace int) {
	t.Helper()
	d, err := time.ParseDuration(drain)
	if err != nil {
		t.Errorf("%s: the drain's time-out: %v", where, err)
		return
	}
	given := time.Duration(grace-pause) * time.Second
	if stop := stopTimeout(d); d >= stop || stop+5*time.Second > given {
		t.Errorf("%s: drain %s, stop %s, given %s: each must be above the one before, the last by 5s", where, d, stop, given)
	}
}

// The budget of every deployment rests on this formula.
func TestStopTimeoutIsThePrograms(t *testing.T) {
	t.Parallel()
	if !strings.Contains(read(t, "cmd/postrider/worker.go"), "fx.StopTimeout(2*c.Coordinator.DrainTimeout+5*time.Second)") {
		t.Error("the program's stop time-out is another one: deploy/ and this package count with 2 * drain + 5 s")
	}
}
