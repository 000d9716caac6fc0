package faultproxy_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// patience bounds every wait of these tests.
const patience = time.Minute

func TestMain(m *testing.M) { pgtest.Main(m) }

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits for a condition that has no signal.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx := deadline(t)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("it did not come true that %s", what)
		case <-ticker.C:
		}
	}
}

// struck waits for a trigger.
func struck(t *testing.T, fired <-chan struct{}) {
	t.Helper()
	select {
	case <-fired:
	case <-deadline(t).Done():
		t.Fatal("the trigger did not fire")
	}
}

// recorder is a test that may fail without failing the one that runs it.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) said() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.failures...)
}
