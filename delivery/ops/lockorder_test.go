package ops_test

import (
	"context"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery/ops"
)

// A resize locks the table and then the lease rows. A change that came between the two must wait without holding
// what the resize still needs: else one of them would be ended as a deadlock.
func TestAChangeNeverWaitsForAResizeInACircle(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.kill(t, "x", b.append(t, "s"))
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), `LOCK TABLE outbox IN EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := b.op.Requeue(t.Context(), ops.Command{Selection: ops.Selection{All: true}, Actor: "test", Reason: "test"})
		ended <- err
	}()
	waits(t, b)
	if _, err := tx.Exec(t.Context(), `SELECT FROM outbox_partitions ORDER BY partition_key FOR NO KEY UPDATE NOWAIT`); err != nil {
		t.Fatalf("the change holds the lease row while it waits for the table: %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the change does not end")
	}
}
