package backend

import (
	"errors"
	"fmt"
	"os"
	"testing"
)

// Kind is the origin of servers.
type Kind string

const (
	// Local servers run from installed binaries or inside the test process.
	Local Kind = "local"
	// Containers are started through a Docker engine.
	Containers Kind = "containers"
)

const (
	// Variable chooses the Kind.
	Variable = "POSTRIDER_TEST_BACKEND"
	// RequireVariable set to 1 makes a missing Docker engine a failure.
	RequireVariable = "POSTRIDER_REQUIRE_CONTAINERS"
)

// ErrNoEngine means that no Docker engine answers.
var ErrNoEngine = errors.New("no Docker engine answers")

// Selected reads the choice from the environment. Defaults to Local.
func Selected() (Kind, error) {
	switch value := os.Getenv(Variable); value {
	case "", string(Local):
		return Local, nil
	case string(Containers):
		return Containers, nil
	default:
		return "", fmt.Errorf("%s is %q, must be %q or %q", Variable, value, Local, Containers)
	}
}

// MustSelect is Selected for a test.
func MustSelect(t testing.TB) Kind {
	t.Helper()
	kind, err := Selected()
	if err != nil {
		t.Fatal(err)
	}
	return kind
}

// Check ends the test if there is an error: by skipping it when a Docker engine is missing that need not be there, else as a failure.
func Check(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, ErrNoEngine) && os.Getenv(RequireVariable) != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
