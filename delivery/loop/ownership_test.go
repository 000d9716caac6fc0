package loop_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// owned is the history of a partition in words, the oldest first.
func (b *bundle) owned(t *testing.T, id partition.ID) (lines []string) {
	t.Helper()
	h, err := b.leases.History(t.Context(), lease.HistoryQuery{Partition: &id, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range slices.Backward(h.Changes) {
		lines = append(lines, fmt.Sprint(c.Kind, " ", c.Epochs[slices.Index(c.Partitions, id)]))
	}
	return lines
}

// A database that failed over, or whose row was made anew, knows lower epochs than the
// stream. To raise one moves nothing: who comes next has it under a higher one, and
// no epoch was anybody's that the history does not name.
func TestARaisedEpochIsNobodysInTheHistory(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.exec(t, `UPDATE outbox_partitions SET lease_epoch = 1000`)
	b.append(t, "s", `1`)
	b.deliver(t)
	b.exec(t, `UPDATE outbox_partitions SET lease_epoch = 3`)
	b.append(t, "s", `2`)
	b.succeed(t)
	l := b.keeper.Set().Held()[0]
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.relay(t, loop.Config{}).Take(ctx, []*lease.Lease{l}); err == nil {
		t.Fatal("an epoch below the stream's was not refused")
	}
	l.Lost()
	b.acquireAll(t, b.keeper)
	b.drain(t, b.relay(t, loop.Config{}))
	if got, want := b.owned(t, 0), []string{"taken 1001", "taken-over 4", "retaken 1002"}; !slices.Equal(got, want) {
		t.Errorf("the history says %q, want %q", got, want)
	}
	b.until(t, `SELECT count(DISTINCT lease_epoch) FROM outbox_deliveries WHERE lease_epoch IN (1001, 1002)`, 2)
}

// A resize that fails after it took the partitions leaves in the history that it had
// them, and not that any was removed.
func TestAFailedResizeRemovesNothingFromTheHistory(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	b.append(t, "s", `1`)
	b.exec(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''refused''; END'`)
	b.exec(t, `CREATE CONSTRAINT TRIGGER late AFTER UPDATE ON outbox_settings DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION refuse()`) // at the commit, after everything
	if _, err := b.resized(t, 2); err == nil {
		t.Fatal("the resize did not fail")
	}
	if got, want := b.owned(t, 3), []string{"taken 1", "released 1"}; !slices.Equal(got, want) {
		t.Errorf("after a resize that failed the history says %q, want %q", got, want)
	}
	b.exec(t, `DROP TRIGGER late ON outbox_settings`)
	b.resize(t, 2)
	if got, want := b.owned(t, 3), []string{"taken 1", "released 1", "moved 2", "removed 2"}; !slices.Equal(got, want) {
		t.Errorf("after a resize the history says %q, want %q", got, want)
	}
}
