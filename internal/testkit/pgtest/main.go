package pgtest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/testkit/leaks"
)

// stopTimeout bounds everything that happens after the last test.
const stopTimeout = time.Minute

// runner stops the shared server between the last test and the search for leaked goroutines.
type runner struct{ tests *testing.M }

func (r runner) Run() int {
	code := r.tests.Run()
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := shared.stop(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest: stop the shared server:", err)
		return 1
	}
	return code
}

// Main runs the tests of a package, stops the server they shared, and fails if a goroutine is left. It does
// not return. Call it from TestMain.
func Main(m *testing.M, options ...goleak.Option) {
	shared.open()
	goleak.VerifyTestMain(leaks.Patiently(runner{m}), append(leaks.Known(), options...)...)
}
