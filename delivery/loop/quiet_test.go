package loop_test

import (
	"context"
	"strings"
	"testing"
)

// Whatever is committed moves the position, and nothing else does.
func TestACommitMovesThePosition(t *testing.T) {
	t.Parallel()
	eachWay(t, 1, commitsMoveThePosition)
}

func commitsMoveThePosition(t *testing.T, b *bundle) {
	t.Helper()
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
	// Others commit on the server that tests share, so that one of many looks must find nothing; its log is written to by itself, too.
	stood := strings.Contains(before, "/")
	for try := 0; try < 2000 && !stood; try++ {
		before = at()
		b.exec(t, `SELECT pg_advisory_xact_lock(1), count(*) FROM outbox`)
		stood = at() == before
	}
	if !stood {
		t.Errorf("nobody committed anything, and the position never stood still: it is %s", at())
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := b.store.Position(ended); err == nil {
		t.Error("a position without a database")
	}
}
