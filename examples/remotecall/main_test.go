package main

import (
	"os"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// programVariable set to 1 turns the test binary into the program, so that tests can kill real processes.
const programVariable = "REMOTECALL_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) == "1" {
		main()
		os.Exit(0)
	}
	clustertest.Main(m)
}
