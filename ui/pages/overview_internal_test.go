package pages

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/ui/source"
)

func TestOneFaultIsOneRow(t *testing.T) {
	t.Parallel()
	s := source.Snapshot{Own: []condition.Condition{{Reason: condition.StreamMissing, Detail: "stream EVENTS: stream not found"}}}
	if got := notReady(s, "stream_missing: stream EVENTS: stream not found"); got != "" {
		t.Errorf("beside the reason itself the page says %q", got)
	}
	if got := notReady(s, "database_away: no answer"); got == "" {
		t.Error("the page leaves out a reason that it does not show elsewhere")
	}
}

func TestPausedOnPurposeIsNoAlarm(t *testing.T) {
	t.Parallel()
	since, zero := time.Now(), 0.0
	owned := source.Partition{Owner: uuid.UUID{15: 1}, LeaseLeft: time.Second}
	paused, waits := owned, owned
	paused.Number, paused.PausedAt, paused.OldestPending = 0, &since, time.Hour
	waits.Number, waits.OldestPending = 1, time.Minute
	tone := func(key string, partitions ...source.Partition) string {
		for _, tile := range tiles(source.Snapshot{Partitions: partitions, PerSecond: &zero}) {
			if tile.Key == key {
				return tile.Tone
			}
		}
		t.Fatalf("there is no tile %s", key)
		return ""
	}
	for _, key := range []string{"oldest", "rate"} {
		if got := tone(key, paused); got != "" {
			t.Errorf("tile %s of a paused partition is %q", key, got)
		}
		if got := tone(key, paused, waits); got != "warn" {
			t.Errorf("tile %s of an event that waits for a minute is %q, want warn", key, got)
		}
	}
}

func TestReasonsComeBySeverity(t *testing.T) {
	t.Parallel()
	since := time.Now()
	s := source.Snapshot{Partitions: []source.Partition{
		{Number: 0, PausedAt: &since, Pending: 17, Owner: uuid.UUID{15: 1}, LeaseLeft: time.Second},
		{Number: 1, Dead: 500, Blocked: 2500, Owner: uuid.UUID{15: 1}, LeaseLeft: time.Second},
		{Number: 2, Pending: 3},
	}}
	var keys []string
	for _, o := range obstaclesShown(s, true, true) {
		keys = append(keys, o.Key)
	}
	want := []string{"no-owner", "dead", "blocked", "paused"}
	if !slices.Equal(keys, want) {
		t.Fatalf("the reasons are %v, want %v", keys, want)
	}
}

// Each reason has words of its own: one without them read as another.
func TestEachReasonToWaitHasItsWords(t *testing.T) {
	t.Parallel()
	titles := map[string]string{}
	for _, reason := range source.WaitReasons() {
		s := source.Snapshot{Own: []condition.Condition{{Reason: condition.Reason(reason)}}}
		if !slices.Contains(condition.Reasons(), condition.Reason(reason)) {
			s.Own = nil
		}
		one := obstacleWords(s, source.Wait{Reason: reason, Events: 2, Text: "text"})
		if other, twice := titles[one.Title]; twice || one.Title == reason || one.Key != strings.ReplaceAll(reason, "_", "-") {
			t.Errorf("%s has the title %q and the key %q, as %q has", reason, one.Title, one.Key, other)
		}
		titles[one.Title] = reason
	}
}
