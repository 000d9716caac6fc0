package pages

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui/source"
	"github.com/postrider/postrider/web"
)

const (
	// timelineSpan is the drawn time by default.
	timelineSpan = time.Hour
	// timelineChanges bounds the drawn changes.
	timelineChanges = 2000
)

// timeline draws the owners of partitions. It follows the changes backwards from the present, so it reads later ones than asked, too.
func (p *Pages) timeline(ctx context.Context, seen source.Observation, now time.Time, q lease.HistoryQuery) (*web.Timeline, error) {
	from, until := q.Since, q.Until
	if until.IsZero() || until.After(now) {
		until = now
	}
	if from.IsZero() {
		from = until.Add(-timelineSpan)
	}
	history, next, err := p.desk.Cache.OwnershipPage(ctx, lease.HistoryQuery{Partition: q.Partition, Since: from, Limit: timelineChanges})
	if err != nil {
		return nil, err
	}
	switch begins := history.Begins; {
	case next > 0: // older ones are unknown
		from = history.Changes[len(history.Changes)-1].At
	case q.Since.IsZero() && begins.After(from): // no partition had an owner before
		if from = begins; from.After(until.Add(-time.Minute)) {
			from = until.Add(-time.Minute)
		}
	}
	if !from.Before(until) {
		return nil, nil
	}
	var partitions []int
	for _, one := range seen.Partitions {
		if q.Partition == nil || int(*q.Partition) == one.Number {
			partitions = append(partitions, one.Number)
		}
	}
	line := web.NewTimeline(partitions, spans(seen.Snapshot, now, from, history.Changes, huesWith(seen.Snapshot, history.Changes)), from, until)
	line.Cut = next > 0
	return line, nil
}

// spans follows the changes, the newest first, backwards from the present owners.
func spans(now source.Snapshot, at, from time.Time, changes []lease.Change, hues map[string]int) []web.Span {
	hosts := map[uuid.UUID]string{}
	for _, w := range now.Workers {
		hosts[w.ID] = w.Hostname
	}
	shown := func(o lease.Owner) web.Owner {
		if o.Nobody() {
			return web.Owner{}
		}
		return web.Owner{ID: o.ID.String(), Short: shortID(o.ID), Host: o.Hostname, Hue: hues[o.ID.String()]}
	}
	var list []web.Span
	end := map[partition.ID]time.Time{}      // of the part not yet drawn
	before := map[partition.ID]lease.Owner{} // the owner until then
	late := map[partition.ID]bool{}          // a change was skipped
	for _, p := range now.Partitions {
		id := partition.ID(p.Number)
		end[id], before[id] = at, lease.Owner{ID: p.Owner, Hostname: hosts[p.Owner]}
		if p.Owner != uuid.Nil && !p.Owned() && p.LeaseUntil.Before(at) {
			list = append(list, web.Span{Partition: p.Number, From: p.LeaseUntil, Until: at})
			end[id] = p.LeaseUntil
		}
	}
	for _, c := range changes {
		for _, id := range c.Partitions {
			until, known := end[id]
			if !known {
				continue // the partition is gone
			}
			if c.At.After(until) { // the clock has stepped back since: the change's time is unknown
				late[id] = true
				continue
			}
			to := c.To
			if late[id] {
				to, late[id] = before[id], false
			}
			list = append(list, web.Span{Partition: int(id), Owner: shown(to), From: c.At, Until: until})
			end[id], before[id] = c.At, lease.Owner{}
			switch {
			case c.RanOut != nil && c.RanOut.Before(c.At):
				list = append(list, web.Span{Partition: int(id), From: *c.RanOut, Until: c.At})
				end[id], before[id] = *c.RanOut, c.From
			case !slices.Contains([]lease.ChangeKind{lease.Taken, lease.Moved, lease.Retaken}, c.Kind):
				before[id] = c.From // the owner had released the others before
			}
		}
	}
	for _, p := range now.Partitions {
		id := partition.ID(p.Number)
		list = append(list, web.Span{Partition: p.Number, Owner: shown(before[id]), From: from, Until: end[id]})
	}
	return list
}

// huesWith gives former owners colours, too.
func huesWith(now source.Snapshot, changes []lease.Change) map[string]int {
	hues := ownerHues(now)
	for _, c := range changes {
		for _, o := range []lease.Owner{c.From, c.To} {
			if !o.Nobody() {
				web.AddHue(hues, o.ID.String())
			}
		}
	}
	return hues
}
