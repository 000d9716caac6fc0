package localpg

import (
	"context"
	"errors"
	"testing"
)

// A port that another server took since it was found free is told as that: the other server is not asked.
func TestAPortThatWasTakenMeanwhile(t *testing.T) {
	t.Parallel()
	another, err := Start(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = another.Stop(context.WithoutCancel(t.Context())) })
	server, err := Start(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.WithoutCancel(t.Context())) })
	if err := server.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.port = another.port
	server.mu.Lock()
	defer server.mu.Unlock()
	if err := server.startLocked(t.Context()); !errors.Is(err, ErrPortTaken) {
		t.Errorf("%v, want %v", err, ErrPortTaken)
	}
}
