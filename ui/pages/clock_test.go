package pages

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui/source"
)

// Who took a partition before the clock stepped back is shown as its owner, and not the one before.
func TestTheOwnerIsShownBehindAClockThatSteppedBack(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	a, b := lease.Owner{ID: uuid.UUID{15: 0xa}, Hostname: "a"}, lease.Owner{ID: uuid.UUID{15: 0xb}, Hostname: "b"}
	seen := source.Snapshot{
		At: now, Workers: []source.Worker{{ID: a.ID, Hostname: "a"}, {ID: b.ID, Hostname: "b"}},
		Partitions: []source.Partition{{Number: 0, Owner: b.ID, LeaseLeft: time.Second, LeaseUntil: now.Add(time.Second)}},
	}
	changes := []lease.Change{
		{At: now.Add(50 * time.Minute), Kind: lease.TakenOver, From: a, To: b, Partitions: []partition.ID{0}},
		{At: now.Add(-40 * time.Minute), Kind: lease.Taken, To: a, Partitions: []partition.ID{0}},
	}
	from := now.Add(-time.Hour)
	for _, s := range spans(seen, now, from, changes, nil) {
		if s.From.Before(s.Until) && !s.Until.Before(now) && s.Owner.ID != b.ID.String() {
			t.Errorf("%q is shown as the owner from %v to %v; it is b", s.Owner.Host, s.From.Sub(now), s.Until.Sub(now))
		}
	}
}
