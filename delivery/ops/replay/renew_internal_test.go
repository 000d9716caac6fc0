package replay

import (
	"context"
	"errors"
	"testing"
)

// Who renews a store while the database is away goes on with the one that was.
func TestAStoreStaysWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	away := errors.New("the database is away")
	s := &Store{again: func(context.Context) (*Store, error) { return nil, away }}
	if got, err := s.Renew(t.Context()); got != s || !errors.Is(err, away) {
		t.Errorf("%v, %v", got, err)
	}
}
