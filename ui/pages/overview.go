package pages

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/ui/source"
	"github.com/postrider/postrider/web"
)

// overview serves the first page. While the source fails it shows the last state under a warning, since the person on call needs to
// see it.
func (p *Pages) overview(w http.ResponseWriter, r *http.Request) error {
	seen, err := p.desk.Cache.Observe(r.Context())
	if err != nil {
		return errUnread
	}
	page := p.monitorPage(seen)
	page.Shell = p.shellOf(r, "Overview", sectionMonitor)
	page.Every, page.Reload = 1, reloadEvery
	page.NotReady = notReady(seen.Snapshot, p.desk.Readiness.NotReady(r.Context()))
	page.Ownership = p.besideSnapshot(r, seen, nil, changesListed)
	for i := range page.Workers {
		page.Workers[i].Drainable = page.Workers[i].Drainable && page.MayAct
	}
	page.AsTable = r.URL.Query().Get("partitions") == "table"
	return p.send(w, r, http.StatusOK, "monitor", page)
}

// notReady drops a reason that the snapshot already has of this process: one fault is one row.
func notReady(s source.Snapshot, reason string) string {
	for _, c := range s.Own {
		if strings.HasPrefix(reason, string(c.Reason)+": ") {
			return ""
		}
	}
	return reason
}

// reloadEvery is the interval of updates without script, in seconds.
const reloadEvery = 10

func (p *Pages) monitorPage(seen source.Observation) web.Monitor {
	sum := seen.Summary()
	page := web.Monitor{
		At:        seen.At,
		Age:       seen.Age,
		CountsAge: seen.CountsAge(),
		Trouble:   seen.Trouble(),
		Tiles:     tiles(seen.Snapshot),
		Unowned:   sum.UnownedPartitions,
		Obstacles: obstaclesShown(seen.Snapshot, p.desk.Means().Operator != nil, p.desk.Means().Resizes != nil),
		Resizable: p.desk.Means().Resizes != nil,
	}
	if w := seen.Watermark; seen.Stalled() {
		page.Stall = &web.Stall{Count: len(w.Holders), Names: w.HolderNames(), Waiting: w.Waiting, Rollbacks: w.Rollbacks()}
	}
	minutes := make([]web.Minute, 0, len(seen.Minutes))
	for _, m := range seen.Minutes {
		minutes = append(minutes, web.Minute(m))
	}
	page.Chart = web.NewChart(minutes)
	if len(seen.Seconds) > 0 {
		seconds := make([]web.Second, 0, len(seen.Seconds))
		for _, s := range seen.Seconds {
			seconds = append(seconds, web.Second(s))
		}
		page.Seconds = web.NewSecondsChart(seconds)
	}

	hues, hosts := ownerHues(seen.Snapshot), map[uuid.UUID]string{}
	for _, w := range seen.Workers {
		hosts[w.ID] = w.Hostname
		page.Workers = append(page.Workers, workerRow(w, seen.At, hues[w.ID.String()]))
	}
	for _, p := range seen.Partitions {
		page.Partitions = append(page.Partitions, partitionCell(seen.Snapshot, p, hues[p.Owner.String()], hosts[p.Owner]))
	}
	return page
}

// ownerHues includes owners whose worker row is already gone.
func ownerHues(s source.Snapshot) map[string]int {
	var ids []string
	for _, w := range s.Workers {
		ids = append(ids, w.ID.String())
	}
	for _, p := range s.Partitions {
		if p.Owned() {
			ids = append(ids, p.Owner.String())
		}
	}
	return web.OwnerHues(ids)
}

func workerRow(w source.Worker, at time.Time, hue int) web.Worker {
	row := web.Worker{
		ID: w.ID.String(), Short: shortID(w.ID), Hostname: w.Hostname, PID: w.PID, Version: w.Version,
		State: string(w.State), Started: w.StartedAt, Uptime: max(0, at.Sub(w.StartedAt)),
		Left: w.HeartbeatLeft, Owned: w.Owned, Desired: w.Desired, Hue: hue,
	}
	row.DrainAsked = moment(w.DrainRequestedAt, at)
	row.Drainable = w.State == source.WorkerActive && w.DrainRequestedAt == nil && !w.Alone
	if w.HeartbeatAge != nil {
		row.Age, row.HasAge = *w.HeartbeatAge, true
	}
	return row
}

func partitionCell(s source.Snapshot, p source.Partition, hue int, host string) web.Partition {
	cell := web.Partition{
		Number: p.Number, Owned: p.Owned(), Epoch: p.Epoch, Left: p.LeaseLeft, Delivered: p.Delivered,
		Pending: p.Pending, Failed: p.Failed, Blocked: p.Blocked, Dead: p.Dead, Scheduled: p.Scheduled, BlockedStreams: p.BlockedStreams,
		OldestPending: p.OldestPending, Why: s.Why(p), Stalled: s.WaitsForOrder(p),
	}
	if cell.Owned {
		cell.Owner, cell.Short, cell.Host, cell.Hue = p.Owner.String(), shortID(p.Owner), host, hue
	}
	if p.PausedAt != nil {
		cell.Paused, cell.PausedAt = true, *p.PausedAt
	}
	return cell
}

// shortID is the id's tail: version 7 ids of one start-up share their head.
func shortID(id uuid.UUID) string {
	const digits = 6
	text := id.String()
	return text[len(text)-digits:]
}

// Ages of the oldest pending row that the page paints.
const (
	pendingAgeWarns = 30 * time.Second
	pendingAgeAlarm = 5 * time.Minute
)

func tiles(s source.Snapshot) []web.Tile {
	sum := s.Summary()
	pending := web.Tile{Key: "pending", Label: "Pending", Value: web.Count(sum.Pending), Note: "not yet published"}
	if sum.Scheduled > 0 {
		pending.Note = web.Count(sum.Scheduled) + " more scheduled"
	}
	return []web.Tile{
		pending,
		oldestTile(s),
		rateTile(s),
		latencyTile(s.Latency),
		{Key: "published", Label: "Published, last 60 min", Value: web.Count(sum.PublishedLastHour), Note: "acknowledged by NATS"},
		alarmTile("failed", "Failed", sum.Failed, "warn", "will be retried"),
		blockedTile(sum),
		alarmTile("dead", "Dead", sum.Dead, "bad", "need a person"),
		ownersTile(sum),
		watermarkTile(s.Watermark, s.Stalled()),
	}
}

// oldestTile leaves out partitions that somebody paused on purpose.
func oldestTile(s source.Snapshot) web.Tile {
	var oldest, paused time.Duration
	for _, p := range s.Partitions {
		if p.PausedAt != nil {
			paused = max(paused, p.OldestPending)
		} else {
			oldest = max(oldest, p.OldestPending)
		}
	}
	tile := web.Tile{Key: "oldest", Label: "Oldest pending", Value: "none", Note: "nothing waits"}
	if oldest > 0 {
		tile.Value, tile.Note = web.Duration(oldest), "since it was appended"
	}
	if paused > 0 {
		tile.Note = web.Duration(paused) + " where paused"
	}
	switch {
	case oldest >= pendingAgeAlarm:
		tile.Tone = "bad"
	case oldest >= pendingAgeWarns:
		tile.Tone = "warn"
	}
	return tile
}

// rateTile warns of a standstill: nothing was published for ten seconds, and an event has waited for longer in a partition that is not paused.
func rateTile(s source.Snapshot) web.Tile {
	sum := s.Summary()
	tile := web.Tile{Key: "rate", Label: "Published per second", Value: web.Rate(sum.PublishedPerSecond), Note: "last ten seconds"}
	if sum.PublishedPerSecond == 0 && slices.ContainsFunc(s.Partitions, func(p source.Partition) bool {
		return p.PausedAt == nil && p.OldestPending >= 10*time.Second
	}) {
		tile.Tone, tile.Note = "warn", "none in ten seconds, and events wait"
	}
	return tile
}

func latencyTile(l *source.Latency) web.Tile {
	tile := web.Tile{Key: "latency", Label: "Latency p50 / p99", Value: "none", Note: "nothing published for five minutes"}
	switch {
	case l == nil:
		tile.Value, tile.Note = "unknown", "the time of recording cannot be read"
	case l.Samples > 0:
		tile.Value = web.Latency(l.P50) + " / " + web.Latency(l.P99)
		tile.Note = "from append to marked, last five minutes"
	}
	return tile
}

func watermarkTile(w source.Watermark, stalled bool) web.Tile {
	tile := web.Tile{Key: "watermark", Label: "Watermark lag", Value: web.Count(w.Lag()), Note: "held by nothing"}
	switch w.State() {
	case source.WatermarkCurrent:
		tile.Note = "order is decided up to " + web.Count(w.Safe)
	case source.WatermarkHeld:
		by := fmt.Sprintf("%d transactions", len(w.Holders))
		if len(w.Holders) == 1 {
			by = "a transaction"
		}
		tile.Note = "held for " + web.Duration(w.Waiting) + " by " + by
	case source.WatermarkUnused:
		tile.Value, tile.Note = "not in use", "ordering stream"
	case source.WatermarkUnknown:
		tile.Value, tile.Note = "unknown", "postrider status tells why"
	case source.WatermarkBehind:
	}
	switch {
	case stalled && w.Waiting >= pendingAgeAlarm:
		tile.Tone = "bad"
	case stalled:
		tile.Tone = "warn"
	}
	return tile
}

func alarmTile(key, label string, count int64, tone, note string) web.Tile {
	tile := web.Tile{Key: key, Label: label, Value: web.Count(count), Note: "none"}
	if count > 0 {
		tile.Tone, tile.Note = tone, note
	}
	return tile
}

func blockedTile(sum source.Summary) web.Tile {
	tile := alarmTile("blocked", "Blocked streams", sum.BlockedStreams, "warn", web.Count(sum.Blocked)+" events wait in them")
	if sum.Blocked == 1 {
		tile.Note = "1 event waits in it"
	}
	return tile
}

func ownersTile(sum source.Summary) web.Tile {
	total := sum.OwnedPartitions + sum.UnownedPartitions
	tile := web.Tile{
		Key: "owned", Label: "Partitions owned",
		Value: fmt.Sprintf("%d / %d", sum.OwnedPartitions, total),
		Note:  fmt.Sprintf("by %d active workers", sum.ActiveWorkers),
	}
	if sum.ActiveWorkers == 1 {
		tile.Note = "by 1 active worker"
	}
	if sum.UnownedPartitions > 0 {
		tile.Tone = "bad"
	}
	if sum.PausedPartitions > 0 {
		tile.Note += fmt.Sprintf(", %d paused", sum.PausedPartitions)
	}
	return tile
}
