package source

import (
	"context"
	"time"

	"github.com/postrider/postrider/delivery/pgstore"
)

const secondsKept = 5 * time.Minute

// looksOverlap is the overlap of two reads, for batches that were counted before the first and committed after it.
const looksOverlap = 10 * time.Second

// recentReader keeps the events published in each second, by repeated reads of the batches since the last read: the database has no such
// history. One read is under way at a time.
type recentReader struct {
	read      time.Time // when the last read began, by this process's clock
	at, since time.Time // the same by the database's clock, and the begin of the known seconds
	seconds   map[int64]int64
}

// published is the result of a read.
type published struct {
	perSecond float64
	seconds   []Second
}

func (r *recentReader) look(ctx context.Context, store *pgstore.Store) (published, error) {
	began := time.Now()
	within := secondsKept + time.Second // the first second is cut
	if !r.read.IsZero() {
		within = min(within, began.Sub(r.read)+looksOverlap)
	}
	recent, err := store.Recent(ctx, within)
	if err != nil {
		return published{}, err
	}
	r.read = began
	return published{perSecond: recent.PerSecond, seconds: r.add(recent)}, nil
}

// add joins a read to the earlier ones, and begins anew after a gap between them, or a step back of the clock.
func (r *recentReader) add(recent pgstore.Recent) []Second {
	from := recent.Since.Add(time.Second - 1).Truncate(time.Second) // the first whole second
	if r.at.IsZero() || from.After(r.at) || recent.At.Before(r.at) {
		r.since, r.seconds = from, map[int64]int64{}
	}
	r.at = recent.At
	end := recent.At.Truncate(time.Second)
	if first := end.Add(-secondsKept); r.since.Before(first) {
		r.since = first
	}
	for at := range r.seconds {
		if at < r.since.Unix() || at >= from.Unix() {
			delete(r.seconds, at)
		}
	}
	for _, one := range recent.Seconds {
		if !one.At.Before(from) {
			r.seconds[one.At.Unix()] = one.Published
		}
	}
	list := make([]Second, 0, secondsKept/time.Second)
	for at := r.since; at.Before(end); at = at.Add(time.Second) {
		list = append(list, Second{At: at, Published: r.seconds[at.Unix()]})
	}
	return list
}
