package pgstore

import (
	"maps"
	"strings"
	"testing"
)

// One value that is no header, whatever it is, costs the others nothing.
func TestOneOddHeaderCostsNoOther(t *testing.T) {
	t.Parallel()
	for _, odd := range []string{"1e400", "-1" + strings.Repeat("0", 400), "{}", "[1e400]", "null", "true"} {
		if got := stringsOf([]byte(`{"a": "x", "odd": ` + odd + `, "b": "y"}`)); !maps.Equal(got, map[string]string{"a": "x", "b": "y"}) {
			t.Errorf("beside %.20s the headers are %v", odd, got)
		}
	}
}
