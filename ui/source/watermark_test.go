package source

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/lease"
)

func TestStateOfTheWatermark(t *testing.T) {
	t.Parallel()
	holder := pgstore.Holder{PID: 7, Application: "billing", State: "active", Age: time.Minute}
	stall := func(safe, highest int64, waiting time.Duration, holders ...pgstore.Holder) pgstore.Stall {
		return pgstore.Stall{Watermark: delivery.Watermark{Safe: safe, Highest: highest}, Waiting: waiting, Holders: holders}
	}
	for name, test := range map[string]struct {
		stall     pgstore.Stall
		delivered int64
		state     WatermarkState
		waiting   time.Duration
		says      string
	}{
		"empty":                      {stall(0, 0, 0), 0, WatermarkCurrent, 0, "0, current"},
		"current":                    {stall(1234, 1234, 0), 1234, WatermarkCurrent, 0, "1,234, current"},
		"between two looks":          {stall(5, 9, 0), 5, WatermarkBehind, 0, "5, 4 behind, held by nothing"},
		"held":                       {stall(5, 9, time.Minute, holder), 5, WatermarkHeld, time.Minute, "held for 1 min by pid 7 (billing, active, 1 min old)"},
		"held, noted by the dead":    {stall(5, 9, time.Hour), 5, WatermarkBehind, 0, "held by nothing"},
		"never used":                 {stall(0, 9, 0), 9, WatermarkUnused, 0, "not in use"},
		"no longer used":             {stall(5, 9, time.Hour), 6, WatermarkUnused, 0, "not in use"},
		"held after other orderings": {stall(5, 9, time.Minute, holder), 6, WatermarkHeld, time.Minute, "pid 7"},
	} {
		w := newWatermark(test.stall, lease.Snapshot{Rows: []lease.Row{{Delivered: 1}, {Partition: 1, Delivered: test.delivered}}})
		if test.delivered == 0 {
			w = newWatermark(test.stall, lease.Snapshot{})
		}
		if w.State() != test.state || w.Waiting != test.waiting || !strings.Contains(w.String(), test.says) {
			t.Errorf("%s: %s, waiting for %v: %s", name, w.State(), w.Waiting, w)
		}
	}
	failed := Watermark{Err: errors.New("dial postgres://app:pw@db/x: no")}
	if text := failed.String(); failed.State() != WatermarkUnknown || text != "unknown: dial postgres://***@db/x: no" {
		t.Errorf("%s: %s", failed.State(), text)
	}
}

func TestHoldersAreNamed(t *testing.T) {
	t.Parallel()
	age := 35 * time.Second
	for want, h := range map[string]Holder{
		"pid 123 (app, idle, 35 s old): SELECT pg_terminate_backend(123)":       {PID: 123, Application: "app", State: "idle", Age: &age},
		"pid 123 (active, 35 s old): SELECT pg_terminate_backend(123)":          {PID: 123, State: "active", Age: &age},
		"pid 123: SELECT pg_terminate_backend(123)":                             {PID: 123},
		`prepared transaction "it's" (35 s old): ROLLBACK PREPARED 'it''s'`:     {GID: "it's", Age: &age},
		`prepared transaction "a\x1b'\\": ROLLBACK PREPARED E'a\U0000001B''\\'`: {GID: "a\x1b'\\"},
	} {
		if got := h.String() + ": " + h.Rollback(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	many := Watermark{Holders: []Holder{{PID: 1}, {PID: 2}, {PID: 3}, {PID: 4}, {PID: 5}, {PID: 6}, {PID: 7}}}
	if got := many.HolderNames(); got != "pid 1, pid 2, pid 3, pid 4, pid 5, and 2 more" {
		t.Errorf("%q", got)
	}
	if got := many.Rollbacks(); len(got) != 5 || got[0] != "SELECT pg_terminate_backend(1)" {
		t.Errorf("%q", got)
	}
}

func TestWhyAPartitionWaits(t *testing.T) {
	t.Parallel()
	paused := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	owned := func(p Partition) Partition {
		p.Owner, p.LeaseLeft = uuid.UUID{1}, time.Second
		return p
	}
	held := Watermark{Safe: 5, Highest: 9, Waiting: 2 * time.Second, Holders: []Holder{{PID: 7}}}
	brief, behind := held, held
	brief.Waiting, behind.Holders = time.Second, nil
	waits := owned(Partition{Pending: 1, OldestPending: 2 * time.Second})
	young, stopped := waits, waits
	young.OldestPending, stopped.PausedAt = time.Second, &paused
	for name, test := range map[string]struct {
		watermark Watermark
		partition Partition
		frozen    bool
		want      string
		stalled   bool
	}{
		"nothing waits":      {held, owned(Partition{Scheduled: 1}), false, "", false},
		"transaction":        {held, waits, false, "order waits for pid 7", true},
		"brief transaction":  {brief, waits, false, "", false},
		"held by nothing":    {behind, waits, false, "", false},
		"events just come":   {held, young, false, "", false},
		"paused":             {held, stopped, false, "paused since 2026-03-04 12:00:00 UTC", false},
		"no owner":           {Watermark{}, Partition{Pending: 1}, false, "no owner", false},
		"resized":            {Watermark{}, Partition{Pending: 1}, true, "no owner: the partitions are being resized", false},
		"dead":               {held, owned(Partition{Dead: 2}), false, "2 dead, until a person acts", false},
		"blocked":            {held, owned(Partition{Blocked: 1204}), false, "1,204 blocked behind an earlier event of their stream", false},
		"failed":             {held, owned(Partition{Failed: 3}), false, "3 failed, to be tried again", false},
		"no owner, held too": {held, Partition{Pending: 1, OldestPending: time.Minute}, false, "no owner; order waits for pid 7", true},
	} {
		s := Snapshot{Watermark: test.watermark, Frozen: test.frozen, Partitions: []Partition{owned(Partition{}), test.partition}}
		if got := strings.Join(s.Why(test.partition), "; "); got != test.want || s.Stalled() != test.stalled {
			t.Errorf("%s: %q, stalled %t; want %q, %t", name, got, s.Stalled(), test.want, test.stalled)
		}
	}
}
