package pages

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui/act"
	"github.com/postrider/postrider/ui/source"
	"github.com/postrider/postrider/web"
)

// changesListed is the number of changes of ownership on the first page.
const changesListed = 12

// ownership serves a page of changes of ownership, the newest first.
func (p *Pages) ownership(w http.ResponseWriter, r *http.Request) error {
	now, seen := p.desk.Observe(r.Context())
	given := r.URL.Query()
	q, err := act.OwnershipQuery(given, now)
	if err != nil {
		return err
	}
	q.Limit = pageRows
	history, next, err := p.desk.Cache.OwnershipPage(r.Context(), q)
	if err != nil {
		return err
	}
	page := web.OwnershipPage{
		Shell: p.shellOf(r, "Changes of ownership", sectionMonitor), Ownership: ownershipShown(history, seen, now, q.Partition),
		Partition: given.Get(paramPartition), Since: given.Get(paramSince), Until: given.Get(paramUntil),
	}
	if seen != nil && q.Before == 0 {
		if page.Timeline, err = p.timeline(r.Context(), *seen, now, q); err != nil {
			return err
		}
	}
	filter := url.Values{}
	for _, name := range []string{paramPartition, paramSince, paramUntil} {
		if value := strings.TrimSpace(given.Get(name)); value != "" {
			filter.Set(name, value)
		}
	}
	page.Filtered = len(filter) > 0
	if q.Before == 0 {
		page.Every = listEvery
	} else {
		page.Newest = ownershipAddress(filter)
	}
	if next > 0 {
		filter.Set(paramAfter, number(next))
		page.Older = ownershipAddress(filter)
	}
	return p.send(w, r, http.StatusOK, "ownership", page)
}

func ownershipAddress(filter url.Values) string {
	if len(filter) == 0 {
		return "ownership"
	}
	return "ownership?" + filter.Encode()
}

// besideSnapshot returns the panel of changes for a page made of a snapshot.
func (p *Pages) besideSnapshot(r *http.Request, seen source.Observation, only *partition.ID, limit int) web.Ownership {
	history, err := p.desk.Cache.OwnershipBeside(r.Context(), seen, lease.HistoryQuery{Partition: only, Limit: limit}, p.desk.Logger)
	panel := ownershipShown(history, &seen, seen.At, only)
	panel.Unread = err != nil
	panel.All = "ownership"
	if only != nil {
		panel.All += "?partition=" + number(int64(*only))
	}
	return panel
}

// ownershipShown puts changes into words. For a single partition it shows the epoch.
func ownershipShown(history lease.History, seen *source.Observation, now time.Time, only *partition.ID) web.Ownership {
	var hues map[string]int
	if seen != nil {
		hues = huesWith(seen.Snapshot, history.Changes)
	}
	owner := func(h lease.Owner) *web.Owner {
		if h.Nobody() {
			return nil
		}
		return &web.Owner{ID: h.ID.String(), Short: shortID(h.ID), Host: h.Hostname, Hue: hues[h.ID.String()]}
	}
	panel := web.Ownership{Begins: web.Moment{At: history.Begins, Now: now}}
	for _, c := range history.Changes {
		shown := web.OwnershipChange{
			ID: c.ID, At: web.Moment{At: c.At, Now: now}, Kind: strings.ReplaceAll(string(c.Kind), "-", " "), From: owner(c.From), To: owner(c.To),
			RanOut: moment(c.RanOut, now), Count: len(c.Partitions), Partitions: source.Ranges(c.Partitions),
		}
		for i, id := range c.Partitions {
			if only != nil && id == *only {
				shown.Epoch = c.Epochs[i]
			}
		}
		panel.Changes = append(panel.Changes, shown)
	}
	return panel
}
