package slow

import (
	"os"
	"testing"

	"github.com/postrider/postrider/internal/testkit/part"
)

// Variable set to 1 lets slow tests run.
const Variable = "POSTRIDER_SLOW"

// Test declares the calling test slow: it is skipped unless slow tests are asked for, and this one's part of them.
func Test(t testing.TB) {
	t.Helper()
	if os.Getenv(Variable) != "1" {
		t.Skip("a slow test: set " + Variable + "=1 to run it")
	}
	if !part.Has(t.Name()) {
		t.Skip("a slow test of another part than " + part.Variable + "=" + os.Getenv(part.Variable))
	}
}
