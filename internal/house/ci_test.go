package house_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The script that divides packages for `make test` leaves out those without tests, since a run of nothing else counts as a failure,
// and none of the others.
func TestEachPackageWithTestsIsRunOnce(t *testing.T) {
	t.Parallel()
	list := func(folder, kind string) map[string]bool {
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, ".ci", "packages"), folder, kind, "./...")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", cmd, err)
		}
		found := map[string]bool{}
		for _, name := range strings.Fields(string(out)) {
			found[name] = true
		}
		return found
	}
	for _, folder := range modules(t) {
		relative, err := filepath.Rel(root, folder)
		if err != nil {
			t.Fatal(err)
		}
		all, concurrent, sequential := list(relative, "all"), list(relative, "concurrent"), list(relative, "sequential")
		for name := range all {
			if tests, err := filepath.Glob(filepath.Join(name, "*_test.go")); err != nil || len(tests) == 0 {
				t.Errorf("%s has no tests (%v)", name, err)
			}
			if concurrent[name] == sequential[name] {
				t.Errorf("%s is run under both kinds, or under none", name)
			}
		}
		if len(all) == 0 || len(concurrent)+len(sequential) != len(all) {
			t.Errorf("module %s: %d packages have tests, %d are concurrent and %d sequential", folder, len(all), len(concurrent), len(sequential))
		}
	}
}
