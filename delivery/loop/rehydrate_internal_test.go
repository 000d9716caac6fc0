package loop

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery"
)

// asked is a database that notes which server is to give the events.
type asked struct {
	delivery.Store
	of time.Time
}

func (a *asked) Rehydrate(_ context.Context, server time.Time, _ []int64, _, _ int64) (map[int64]*delivery.Event, int64, error) {
	a.of = server
	return map[int64]*delivery.Event{}, 0, nil
}

// A relay asks the server that gave out the claim for its events.
func TestEventsAreOfTheServerThatGaveThemOut(t *testing.T) {
	t.Parallel()
	a := &asked{}
	r, err := NewRelay(Config{Logger: slog.New(slog.DiscardHandler)}, a, instant{}, Silence{})
	if err != nil {
		t.Fatal(err)
	}
	claimed := delivery.Claim{Server: time.Unix(7, 0), Batches: []delivery.Batch{{Messages: []delivery.Message{{Pointer: delivery.Pointer{Sequence: 1}}}}}}
	if _, _, err := r.events(t.Context(), claimed, 1, 1); err != nil || !a.of.Equal(claimed.Server) {
		t.Errorf("the events are asked of the server that was started at %s, %v, want %s", a.of, err, claimed.Server)
	}
}
