package source

import (
	"context"
	"time"

	"github.com/postrider/postrider/delivery/pgstore"
)

const secondsKept = 5 * time.Minute

// looksOverlap is how far a look goes back behind the one before, for batches that were counted before that and committed after it.
const looksOverlap = 10 * time.Second

// recentReader keeps what was published in each second, as it looks again and again at the batches since the last look: the database has
// no such history. One read is under way at a time.
type recentReader struct {
	read      time.Time // when the last look began, by this process's clock
	at, since time.Time // when that was, and from when on all is known, by the database's
	seconds   map[int64]int64
}

// published is what a look gave.
type published struct {
	perSecond float64
	seconds   []Second
}

func (r *recentReader) look(ctx context.Context, store *pgstore.Store) (published, error) {
	began := time.Now()
	within := secondsKept + time.Second // the first one is cut
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

// add joins a look to those before it, and begins anew where there is a gap between them, or the clock has stepped back.
func (r *recentReader) add(recent pgstore.Recent) []Second {
	from := recent.Since.Add(time.Second - 1).Truncate(time.Second) // the first second that is whole
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
