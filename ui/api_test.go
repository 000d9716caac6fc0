package ui_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/postrider/postrider/ui"
)

func TestSummaryAddsUp(t *testing.T) {
	t.Parallel()
	snapshot := cluster(64)
	server := serve(t, ui.Options{Source: always(snapshot), Environment: "test", Version: "1"})
	sum := snapshot.Summary()

	body := decode[struct {
		At                   string
		Pending              int64
		Dead, Failed         int64
		Blocked              int64
		PublishedLastHour    int64   `json:"published_last_hour"`
		PublishedPerSecond   float64 `json:"published_per_second"`
		OldestPendingSeconds float64 `json:"oldest_pending_age_seconds"`
		Workers              struct{ Active, Draining, Stale int }
		Partitions           struct{ Total, Owned, Unowned, Paused int }
	}](t, call(t, server, http.MethodGet, "/api/v1/summary"))

	if body.At != "2026-03-04T12:34:20Z" || body.Pending != sum.Pending || body.Dead != sum.Dead || body.Blocked != sum.Blocked {
		t.Errorf("body %+v does not match %+v", body, sum)
	}
	if body.Pending == 0 || body.OldestPendingSeconds != 62*0.9 {
		t.Errorf("pending %d, oldest %v", body.Pending, body.OldestPendingSeconds)
	}
	if body.Workers.Active != 2 || body.Workers.Draining != 1 || body.Workers.Stale != 1 {
		t.Errorf("workers %+v", body.Workers)
	}
	if p := body.Partitions; p.Total != 64 || p.Owned != 59 || p.Unowned != 5 || p.Paused != 4 {
		t.Errorf("partitions %+v", p)
	}
	minutes := snapshot.Minutes
	want := float64(minutes[59].Published+minutes[58].Published) / 80
	if body.PublishedPerSecond != want {
		t.Errorf("%v published a second, want %v: two minutes over their 80 elapsed seconds", body.PublishedPerSecond, want)
	}
}

func TestPartitionsAndWorkersAreExact(t *testing.T) {
	t.Parallel()
	snapshot := cluster(12)
	const large = 1<<53 - 1
	snapshot.Partitions[1].Delivered = large
	server := serve(t, ui.Options{Source: always(snapshot)})

	got := call(t, server, http.MethodGet, "/api/v1/partitions")
	wantContains(t, got, `"delivered":9007199254740991`)
	body := decode[struct {
		Partitions []struct {
			Partition int     `json:"partition_key"`
			Owner     *string `json:"lease_owner"`
			Until     *string `json:"lease_until"`
			Left      float64 `json:"lease_left_seconds"`
		}
	}](t, got)
	if len(body.Partitions) != 12 || body.Partitions[10].Owner != nil || body.Partitions[10].Until != nil {
		t.Errorf("partitions %+v; want the tenth without an owner", body.Partitions)
	}
	if p := body.Partitions[0]; p.Owner == nil || *p.Owner != snapshot.Partitions[0].Owner.String() || p.Left != 7.3 {
		t.Errorf("partition 0 is %+v", p)
	}

	workers := decode[struct {
		Workers []struct {
			State          string
			Left           float64 `json:"heartbeat_left_seconds"`
			Age            float64 `json:"heartbeat_age_seconds"`
			Owned, Desired int
		}
	}](t, call(t, server, http.MethodGet, "/api/v1/workers")).Workers
	if len(workers) != 4 || workers[3].State != "stale" || workers[3].Left != -14 || workers[0].Age != 0.7 || workers[0].Desired != 6 {
		t.Errorf("workers %+v", workers)
	}
}

func TestEmptyClusterHasEmptyLists(t *testing.T) {
	t.Parallel()
	server := serve(t, ui.Options{Source: always(ui.Snapshot{})})
	for path, want := range map[string]string{
		"/api/v1/workers": `"workers":[]`, "/api/v1/partitions": `"partitions":[]`, "/api/v1/throughput": `"minutes":[]`,
		"/": "No worker is registered",
	} {
		got := call(t, server, http.MethodGet, path)
		wantStatus(t, got, http.StatusOK)
		wantContains(t, got, want)
	}
	if page := call(t, server, http.MethodGet, "/"); !strings.Contains(page.text, "postrider migrate up") {
		t.Error("the empty page does not say how to create the tables")
	}
}
