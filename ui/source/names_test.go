package source

import (
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery/pgstore"
)

// What is published is joined with what waits and is dead, and nothing is claimed of a name that may be among the others.
func TestNameLoadsClaimNothingThatIsNotKnown(t *testing.T) {
	t.Parallel()
	written := func(list []NameLoad) (text []string) {
		for _, n := range list {
			rate, share := "-", "-"
			if n.PerSecond != nil {
				rate = fmt.Sprint(*n.PerSecond)
			}
			if n.Share != nil {
				share = fmt.Sprintf("%d dead %s", n.Share.Dead, n.Share.Oldest)
			}
			text = append(text, fmt.Sprintf("%s: %s, %s", n.Name, rate, share))
		}
		return text
	}
	dead := pgstore.Share{Dead: 3, Oldest: time.Minute}
	for want, s := range map[string]Snapshot{
		"[new: 9, 0 dead 0s old: 2, 3 dead 1m0s other: 1, 0 dead 0s]": {Named: &pgstore.Named{ByTopic: map[string]pgstore.Share{"old": dead, "other": {}}}},
		"[new: 9, - old: 2, 3 dead 1m0s other: 1, 1 dead 0s]":         {Named: &pgstore.Named{ByTopic: map[string]pgstore.Share{"old": dead, "other": {Dead: 1}}}},
		"[new: 9, - old: 2, - other: 1, -]":                           {},
	} {
		if got := fmt.Sprint(written(s.TopicLoads(map[string]float64{"old": 2, "new": 9, "": 1}))); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	s := Snapshot{Named: &pgstore.Named{ByType: map[string]pgstore.Share{"old": dead}}}
	if got := fmt.Sprint(written(s.TypeLoads(nil))); got != "[old: -, 3 dead 1m0s]" {
		t.Errorf("without rates: %s", got)
	}
}
