package delivery

import (
	"context"
	"log/slog"
	"testing"
	"time"
)

// A driver keeps what it read last column by column.
func TestWhatLetsGoIsAsWideAsTheRehydration(t *testing.T) {
	t.Parallel()
	store, pool := oldestStore(t, 1)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	events, err := conn.Conn().Prepare(t.Context(), "", store.sql.Rehydrate.Text)
	if err != nil {
		t.Fatal(err)
	}
	nothing, err := conn.Conn().Prepare(t.Context(), "", store.sql.LetGo.Text)
	if err != nil {
		t.Fatal(err)
	}
	if len(events.Fields) != len(nothing.Fields) || len(events.Fields) != len(newEventReader().into) {
		t.Errorf("events have %d columns, what lets go of them %d, and %d are read", len(events.Fields), len(nothing.Fields), len(newEventReader().into))
	}
}

// asked is a database that notes which server is to give the events.
type asked struct {
	backend
	of time.Time
}

func (a *asked) Rehydrate(_ context.Context, server time.Time, _ []int64, _, _ int64) (map[int64]*Event, int64, error) {
	a.of = server
	return map[int64]*Event{}, 0, nil
}

// A relay asks the server that gave out the claim for its events.
func TestEventsAreOfTheServerThatGaveThemOut(t *testing.T) {
	t.Parallel()
	a := &asked{}
	r, err := newRelay(Config{Logger: slog.New(slog.DiscardHandler)}, a, instant{}, Silence{})
	if err != nil {
		t.Fatal(err)
	}
	claimed := Claim{server: time.Unix(7, 0), Batches: []Batch{{Messages: []Message{{Pointer: Pointer{Sequence: 1}}}}}}
	if _, _, err := r.events(t.Context(), claimed, 1, 1); err != nil || !a.of.Equal(claimed.server) {
		t.Errorf("the events are asked of the server that was started at %s, %v, want %s", a.of, err, claimed.server)
	}
}
