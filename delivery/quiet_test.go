package delivery_test

import "testing"

// Whatever is committed moves the position.
func TestACommitMovesThePosition(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	at := func() string {
		position, err := b.store.Position(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return position
	}
	before := at()
	for _, change := range []string{
		`SELECT outbox_append('s', 't', '1')`,
		`UPDATE outbox SET available_at = clock_timestamp()`,
		`UPDATE outbox_partitions SET paused_at = NULL`,
		`DELETE FROM outbox`,
	} {
		b.exec(t, change)
		if after := at(); after == before {
			t.Errorf("%s: the log stands at %s as before", change, after)
		} else {
			before = after
		}
	}
	b.pool.Close()
	if _, err := b.store.Position(t.Context()); err == nil {
		t.Error("a position without a database")
	}
}
