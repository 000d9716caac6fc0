package natspub

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/partition"
)

// A purge of one subject has the server read from the first message removed to the subject's last one, while the stream stores nothing.
// So there are two ways.
const (
	// Up to a position, which is right however late the server does it: for spans of at most shortSpan messages, calmSpan while the
	// partition rests.
	shortSpan = 100_000
	calmSpan  = 400_000
	// All but the last ones, where the server ends early: done late it takes more, but always leaves so many.
	busyRecords = 1000
	calmRecords = 16
)

// begins is the position of a stream's first message: while it is there nothing was dropped from the front, as a look for gaps concludes.
// The partition of that record keeps its records.
const begins = 1

// edge is the position of a session's last record, and the number of those written.
type edge struct {
	mu            sync.Mutex
	last, written uint64
}

// wrote notes a record.
func (s *session) wrote(at uint64) {
	s.edge.mu.Lock()
	defer s.edge.mu.Unlock()
	s.edge.last, s.edge.written = at, s.edge.written+1
}

// Records implements delivery.Publisher.
func (f *Fenced) Records(of delivery.Session) (last, written uint64) {
	s, taken := of.(*session)
	if !taken {
		return 0, 0
	}
	s.edge.mu.Lock()
	defer s.edge.mu.Unlock()
	return s.edge.last, s.edge.written
}

// Trim implements delivery.Publisher. The partition's last record stays, whoever wrote it.
func (f *Fenced) Trim(ctx context.Context, id partition.ID, of delivery.Session, last, written uint64) (more bool, err error) {
	subject := f.cfg.Control.Subject(id)
	ctx, cancel := context.WithTimeout(ctx, f.cfg.AckTimeout)
	defer cancel()
	newest, err := f.api.Last(ctx, subject)
	if err != nil {
		return false, err
	}
	oldest, err := f.api.Next(ctx, subject, 1)
	last = min(last, newest.Sequence)
	if err != nil || oldest.Sequence >= last || oldest.Sequence <= begins {
		return false, err
	}
	_, now := f.Records(of)
	span, least := uint64(shortSpan), max(busyRecords, now-written+calmRecords)
	if now == written {
		span, least = calmSpan, calmRecords
	}
	if newest.Sequence-oldest.Sequence <= span {
		_, err = f.api.Purge(ctx, subject, last, 0)
		return false, err
	}
	held, err := f.api.Held(ctx, subject)
	if err != nil {
		return false, err
	}
	_, more, err = f.chunk.thin(ctx, f.api, subject, held[subject], least)
	return more, err
}

// thin removes the oldest messages of a subject except the last ones, as many as the server does in a moment.
func (c *chunk) thin(ctx context.Context, a wire.StreamAPI, subject string, held, least uint64) (removed uint64, more bool, err error) {
	if held <= least {
		return 0, false, nil
	}
	keep := max(least, held-min(held, c.size()))
	began := time.Now()
	removed, err = a.Purge(ctx, subject, 0, keep)
	c.took(time.Since(began))
	return removed, keep > least, err
}

// chunk counts the messages of one purge, which takes about moment.
type chunk struct{ n atomic.Uint64 }

const (
	leastChunk = 8
	mostChunk  = 4096
	moment     = 25 * time.Millisecond
)

func (c *chunk) size() uint64 { return max(leastChunk, c.n.Load()) }

func (c *chunk) took(d time.Duration) {
	switch n := c.size(); {
	case d < moment:
		c.n.Store(min(2*n, mostChunk))
	case d > 2*moment:
		c.n.Store(max(n/2, leastChunk))
	}
}

// askTimeout bounds each call of the JetStream API by Records.
const askTimeout = 5 * time.Second

// Records reads and trims one outbox's records in a stream, without owning partitions.
type Records struct {
	api     wire.StreamAPI
	subject string // of each, but for the partition
	chunk   chunk
}

// NewRecords returns the records of an outbox; apiPrefix is as in StreamConfig.
func NewRecords(nc *nats.Conn, apiPrefix, stream string, control streams.Control) *Records {
	return &Records{api: wire.NewStreamAPI(nc, apiPrefix, stream, wire.DefaultAckTimeout), subject: control.Base()}
}

// Held returns the number of records by subject: of present and of former partitions.
func (r *Records) Held(ctx context.Context) (map[string]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return r.api.Held(ctx, r.subject+"*")
}

// MayTrim returns nil where records may be removed; else the error wraps delivery.ErrConfiguration.
func (r *Records) MayTrim(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := r.api.Purge(ctx, r.subject+"none", 0, 1) // no partition is named so
	return err
}

// Trim removes all but the last records of each subject, and returns the numbers of removed and of remaining ones.
func (r *Records) Trim(ctx context.Context, keep uint64) (removed, left uint64, err error) {
	held, err := r.Held(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, subject := range slices.Sorted(maps.Keys(held)) {
		n := held[subject]
		ask, cancel := context.WithTimeout(ctx, askTimeout)
		oldest, err := r.api.Next(ask, subject, 1)
		cancel()
		if err != nil {
			return removed, left, err
		}
		for more := oldest.Sequence > begins; more; {
			var gone uint64
			began := time.Now()
			ask, cancel := context.WithTimeout(ctx, askTimeout)
			gone, more, err = r.chunk.thin(ask, r.api, subject, n, keep)
			cancel()
			n, removed = n-min(n, gone), removed+gone
			more = more && gone > 0
			if err == nil && more {
				err = delivery.Breathe(ctx, time.Since(began))
			}
			if err != nil {
				return removed, left, err
			}
		}
		left += n
	}
	return removed, left, nil
}
