package source

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

func TestComposeJoinsTheStores(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	first, second, draining, stale := uuid.UUID{1}, uuid.UUID{2}, uuid.UUID{3}, uuid.UUID{4}
	worker := func(id uuid.UUID, state heartbeat.State, left time.Duration) heartbeat.Worker {
		return heartbeat.Worker{ID: id, Hostname: "h", State: state, Left: left}
	}
	workers := heartbeat.Snapshot{At: at, Workers: []heartbeat.Worker{
		worker(first, heartbeat.Active, 8*time.Second), worker(second, heartbeat.Active, 9*time.Second),
		worker(draining, heartbeat.Draining, 7*time.Second), worker(stale, heartbeat.Draining, -2*time.Second),
	}}
	paused := at.Add(-time.Hour)
	leases := lease.Snapshot{At: at.Add(time.Millisecond), Rows: []lease.Row{
		{Partition: 0, Owner: first, Left: 5 * time.Second, Epoch: 7, Delivered: 100},
		{Partition: 1, Owner: first, Left: 5 * time.Second},
		{Partition: 2, Owner: stale, Left: -time.Second},
		{Partition: 3, PausedAt: &paused},
		{Partition: 4, Owner: draining, Left: time.Second},
	}}
	backlog := pgstore.Backlog{At: at.Add(-4 * time.Second), Partitions: []pgstore.PartitionBacklog{
		{Partition: 0, Pending: 3, OldestPending: time.Minute}, {Partition: 3, Dead: 1, Blocked: 2, Failed: 3, Scheduled: 4},
	}}
	minutes := []pgstore.Minute{{At: at, Published: 60, Failed: 1, Retried: 2, Skipped: 3}}

	got := compose(workers, leases, backlog, minutes, partition.Modulo, 10*time.Second)

	if !got.At.Equal(at.Add(time.Millisecond)) || got.CountsAge() != 4*time.Second+time.Millisecond {
		t.Errorf("at %v, counts %v older", got.At, got.CountsAge())
	}
	for i, want := range []struct {
		state          WorkerState
		owned, desired int
		age            time.Duration
	}{
		{WorkerActive, 2, 3, 2 * time.Second},
		{WorkerActive, 0, 2, time.Second},
		{WorkerDraining, 1, 0, 3 * time.Second},
		{WorkerStale, 0, 0, 12 * time.Second},
	} {
		w := got.Workers[i]
		if w.State != want.state || w.Owned != want.owned || w.Desired != want.desired || w.HeartbeatAge == nil || *w.HeartbeatAge != want.age {
			t.Errorf("worker %d is %+v, want %+v", i, w, want)
		}
	}
	if p := got.Partitions[0]; p.Owner != first || p.Epoch != 7 || p.Delivered != 100 || p.Pending != 3 || p.OldestPending != time.Minute {
		t.Errorf("partition 0 is %+v", p)
	}
	if p := got.Partitions[2]; p.Owned() || p.Pending != 0 {
		t.Errorf("partition 2, whose lease ran out, is %+v", p)
	}
	if p := got.Partitions[3]; p.Owned() || p.PausedAt == nil || p.Dead != 1 || p.Blocked != 2 || p.Failed != 3 || p.Scheduled != 4 {
		t.Errorf("partition 3 is %+v", p)
	}
	if sum := got.Summary(); sum.OwnedPartitions != 3 || sum.UnownedPartitions != 2 || sum.Pending != 3 || sum.PublishedLastHour != 60 {
		t.Errorf("summary %+v", sum)
	}
	if len(got.Minutes) != 1 || got.Minutes[0] != (Minute{At: at, Published: 60, Failed: 1, Retried: 2, Skipped: 3}) {
		t.Errorf("minutes %+v", got.Minutes)
	}

	if got := compose(workers, leases, backlog, nil, partition.Modulo, 0); got.Workers[0].HeartbeatAge != nil {
		t.Error("an age without a known lifetime")
	}
	if got := compose(heartbeat.Snapshot{}, leases, pgstore.Backlog{}, nil, partition.Sticky, 0); !got.At.Equal(leases.At) || got.CountsAge() != 0 {
		t.Errorf("without workers: at %v, counts %v older", got.At, got.CountsAge())
	}
}

func TestAgesThatAreYoungerThanTheCountTakeTheirPlace(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	counted := pgstore.Backlog{At: at, Partitions: []pgstore.PartitionBacklog{
		{Partition: 0, Pending: 3, OldestPending: time.Hour}, {Partition: 1}, {Partition: 2, Pending: 9, OldestPending: time.Hour},
	}}
	oldest := pgstore.Oldest{At: at.Add(time.Minute), Partitions: []pgstore.PartitionOldest{
		{Partition: 0, Pending: true, Waited: time.Second}, {Partition: 1, Pending: true}, {Partition: 2},
	}}
	for i, want := range []time.Duration{time.Second, time.Microsecond, 0} {
		got := withOldest(counted, oldest)
		if p := got.Partitions[i]; p.OldestPending != want || p.Pending != counted.Partitions[i].Pending || !got.At.Equal(at) {
			t.Errorf("partition %d: %+v, want an age of %s", i, p, want)
		}
	}
	oldest.At = at
	if got := withOldest(counted, oldest); got.Partitions[0].OldestPending != time.Hour {
		t.Error("an age that is not younger than the count was taken")
	}
}

func TestSourceConfigIsRefusedByName(t *testing.T) {
	t.Parallel()
	complete := Config{
		Workers: &heartbeat.Store{}, Leases: &lease.Store{}, Deliveries: &pgstore.Store{}, Strategy: partition.Modulo,
	}
	if err := complete.Validate(); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*Config){
		"Workers":      func(c *Config) { c.Workers = nil },
		"Leases":       func(c *Config) { c.Leases = nil },
		"Deliveries":   func(c *Config) { c.Deliveries = nil },
		"Strategy":     func(c *Config) { c.Strategy = "random" },
		"HeartbeatTTL": func(c *Config) { c.HeartbeatTTL = -1 },
		"BacklogShare": func(c *Config) { c.BacklogShare = 1.5 },
	} {
		config := complete
		change(&config)
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), "SourceConfig."+field) {
			t.Errorf("error %v; want one that names SourceConfig.%s", err, field)
		}
	}
}

func TestScrub(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"dial postgres://app:pw@db/x: no\nmore":  "dial postgres://***@db/x: no",
		"user=app password=pw host=db":           "user=app password=*** host=db",
		"Password = 'two words' host=db":         "Password = *** host=db",
		"no password = 'two words, one host=db":  "no password = ***",
		"postgres://app:p/w@db/x":                "postgres://***@db/x",
		"nothing to hide":                        "nothing to hide",
		strings.Repeat("ä", 150):                 strings.Repeat("ä", 100) + "…",
		"a" + strings.Repeat("ä", 150):           "a" + strings.Repeat("ä", 99) + "…",
		"nats://token@host:4222 token=abc, rest": "nats://***@host:4222 token=***, rest",
	} {
		if got := Scrub(message); got != want {
			t.Errorf("Scrub(%q) = %q, want %q", message, got, want)
		}
	}
}
