package clustertest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// RaceVariable set to 1 builds the program with the race detector.
const RaceVariable = "POSTRIDER_TEST_RACE"

const program = "github.com/postrider/postrider/cmd/postrider"

// binary is the program, built by the first test that asks. Like pgtest's server it is shared by the test binary.
type binary struct {
	once   sync.Once
	folder string
	path   string
	err    error
}

var built binary

// Main runs the tests of a package as pgtest.Main does, and removes the program that they built. It does not return.
// A child of StartBrokers is a NATS server instead.
func Main(m *testing.M, options ...goleak.Option) {
	if config := os.Getenv(brokerVariable); config != "" { // see Brokers
		if err := serveBroker(config); err != nil {
			fmt.Fprintln(os.Stderr, "clustertest: broker:", err)
		}
		os.Exit(1) // nobody asks it to end
	}
	options = append(options, goleak.Cleanup(func(code int) {
		if built.folder != "" {
			if err := os.RemoveAll(built.folder); err != nil {
				fmt.Fprintln(os.Stderr, "clustertest: remove the program:", err)
				code = max(code, 1)
			}
		}
		os.Exit(code)
	}))
	pgtest.Main(m, options...)
}

// Binary returns the path of the program.
func Binary(t testing.TB) string {
	t.Helper()
	built.once.Do(func() { built.folder, built.path, built.err = build() })
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

func build() (folder, path string, err error) {
	if folder, err = os.MkdirTemp("", "postrider-program-"); err != nil {
		return "", "", fmt.Errorf("clustertest: %w", err)
	}
	path = filepath.Join(folder, "postrider")
	args := []string{"build", "-ldflags=-s -w", "-o", path} // nobody debugs it: half of the linking is saved
	env := os.Environ()
	if os.Getenv(RaceVariable) == "1" {
		args, env = append(args, "-race"), append(env, "CGO_ENABLED=1")
	}
	// Not bound to a test: its lifetime is that of the test binary.
	cmd := exec.Command("go", append(args, program)...)
	cmd.Env = env
	// In the program's own module: the tests of examples/searchsync are in another one.
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		cmd.Dir = filepath.Dir(file)
	}
	output, err := cmd.CombinedOutput()
	if err != nil {
		return folder, "", errors.Join(fmt.Errorf("clustertest: build the program: %w\n%s", err, output))
	}
	return folder, path, nil
}
