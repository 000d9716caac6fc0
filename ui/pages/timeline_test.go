package pages

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui/source"
)

// What the changes tell backwards from now is who had each partition at every moment, and when nobody did.
func TestSpansFollowTheChanges(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	ago := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	a, b := lease.Owner{ID: uuid.UUID{15: 0xa}, Hostname: "a"}, lease.Owner{ID: uuid.UUID{15: 0xb}, Hostname: "b"}
	owned := func(n int, by lease.Owner, left time.Duration) source.Partition {
		return source.Partition{Number: n, Owner: by.ID, LeaseLeft: left, LeaseUntil: now.Add(left)}
	}
	seen := source.Snapshot{
		At: now, Workers: []source.Worker{{ID: a.ID, Hostname: "a"}, {ID: b.ID, Hostname: "b"}},
		Partitions: []source.Partition{
			owned(0, b, time.Second), owned(1, b, time.Second), owned(2, a, time.Second), owned(3, a, -5*time.Minute), owned(4, lease.Owner{}, 0),
		},
	}
	ranOut := ago(21)
	changes := []lease.Change{
		{At: ago(8), Kind: lease.Released, From: a, Partitions: []partition.ID{4, 9}},
		{At: ago(10), Kind: lease.Moved, From: a, To: b, Partitions: []partition.ID{1}},
		{At: ago(12), Kind: lease.Released, From: a, Partitions: []partition.ID{1}},
		{At: ago(20), Kind: lease.TakenOver, From: a, To: b, RanOut: &ranOut, Partitions: []partition.ID{0}},
		{At: ago(30), Kind: lease.Taken, To: a, Partitions: []partition.ID{1}},
	}
	got := make([][]string, 5)
	for _, s := range spans(seen, now, ago(60), changes, nil) {
		who := s.Owner.Host
		if s.Owner.ID == "" {
			who = "-"
		}
		got[s.Partition] = append(got[s.Partition], fmt.Sprintf("%s %.0f-%.0f", who, now.Sub(s.From).Minutes(), now.Sub(s.Until).Minutes()))
	}
	for n, want := range []string{
		"b 20-0, - 21-20, a 60-21",
		"b 10-0, - 12-10, a 30-12, - 60-30",
		"a 60-0",
		"- 5-0, a 60-5",
		"- 8-0, a 60-8",
	} {
		if text := strings.Join(got[n], ", "); text != want {
			t.Errorf("partition %d: %s, want %s", n, text, want)
		}
	}
}
