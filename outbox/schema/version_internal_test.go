package schema

import (
	"errors"
	"testing"
)

func TestServerVersion(t *testing.T) {
	t.Parallel()
	if err := checkServerVersion(130022, "13.22"); !errors.Is(err, ErrServerVersion) {
		t.Errorf("13.22: %v", err)
	}
	if err := checkServerVersion(140000, "14.0"); err != nil {
		t.Errorf("14.0: %v", err)
	}
}
