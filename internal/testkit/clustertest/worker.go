package clustertest

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// Worker is one `postrider run --json`.
type Worker struct {
	*Process
	// ID is the worker's in outbox_workers.
	ID uuid.UUID
}

// Tick is a line of `run --json`, as far as tests read it.
type Tick struct {
	Published int64 `json:"published"`
	Failed    int64 `json:"failed"`
	Dead      int64 `json:"dead"`
	Fenced    int64 `json:"fenced"`
	Refused   int64 `json:"refused"`
	Members   int   `json:"active_workers"`
	Desired   []int `json:"desired_partitions"`
	Owned     []int `json:"owned_partitions"`
	Lost      int64 `json:"leases_lost"`
}

// Ticks returns all lines so far.
func (w *Worker) Ticks(t testing.TB) []Tick {
	t.Helper()
	var ticks []Tick
	lines := strings.Split(w.stdout.text(), "\n")
	for _, line := range lines[:len(lines)-1] { // the last one is incomplete, or empty
		var tick Tick
		if err := json.Unmarshal([]byte(line), &tick); err != nil {
			t.Fatalf("%s wrote a line that is no JSON object: %q: %v", w.name, line, err)
		}
		ticks = append(ticks, tick)
	}
	return ticks
}

// Sum adds up the ticks' counts up to now: of a running worker it waits for the next line.
func (w *Worker) Sum(t testing.TB) Tick {
	t.Helper()
	if _, err := w.nextTick(t, func(Tick) bool { return true }); err != nil && !errors.Is(err, errEnded) {
		t.Fatalf("%s: wait for its next line: %v", w.name, err)
	}
	var sum Tick
	for _, tick := range w.Ticks(t) {
		sum.Published += tick.Published
		sum.Failed += tick.Failed
		sum.Dead += tick.Dead
		sum.Fenced += tick.Fenced
		sum.Refused += tick.Refused
		sum.Lost += tick.Lost
	}
	return sum
}

// WaitTick waits for a line from now on that is as wanted.
func (w *Worker) WaitTick(t testing.TB, what string, wanted func(Tick) bool) Tick {
	t.Helper()
	tick, err := w.nextTick(t, wanted)
	if err != nil {
		t.Fatalf("%s: wait until %s: %v", w.name, what, err)
	}
	return tick
}

var errEnded = errors.New("the process has ended")

// nextTick waits for a line from now on that is as wanted, or for the worker's end.
func (w *Worker) nextTick(t testing.TB, wanted func(Tick) bool) (Tick, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	offset := len(w.stdout.text())
	for {
		text, changed := w.stdout.next(offset)
		for {
			line, rest, complete := strings.Cut(text, "\n")
			if !complete {
				break
			}
			var tick Tick
			if json.Unmarshal([]byte(line), &tick) == nil && wanted(tick) {
				return tick, nil
			}
			offset, text = offset+len(line)+1, rest
		}
		select {
		case <-changed:
		case <-w.ended:
			return Tick{}, errEnded
		case <-ctx.Done():
			return Tick{}, context.Cause(ctx)
		}
	}
}

var monitorURL = regexp.MustCompile(`url"?[=:]"?(http://[^\s"]+)`)

// Monitor returns the address of the worker's monitor without a slash at its end; it needs --http-addr.
func (w *Worker) Monitor(t testing.TB) string {
	t.Helper()
	var found []string
	Until(t, w.name+" has a monitor", func(context.Context) (bool, error) {
		found = monitorURL.FindStringSubmatch(w.Stderr())
		return found != nil, nil
	}, nil)
	return strings.TrimSuffix(found[1], "/")
}
