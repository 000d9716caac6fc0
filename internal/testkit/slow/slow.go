package slow

import (
	"os"
	"testing"
)

// Variable set to 1 lets slow tests run.
const Variable = "POSTRIDER_SLOW"

// Test declares the calling test slow: it is skipped unless slow tests are asked for.
func Test(t testing.TB) {
	t.Helper()
	if os.Getenv(Variable) != "1" {
		t.Skip("a slow test: set " + Variable + "=1 to run it")
	}
}
