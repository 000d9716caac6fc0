package gaps

import (
	"context"
	"errors"
	"testing"
)

// A database that is away ends one audit, and neither the next one nor the worker.
func TestAnAuditOutlivesADatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	away := errors.New("the database is away")
	a := &Auditor{store: &Store{again: func(context.Context) (*Store, error) { return nil, away }}}
	for range 2 {
		if _, err := a.audit(t.Context(), t.Context()); !errors.Is(err, away) {
			t.Error(err)
		}
	}
}
