package pgstore

import "testing"

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
