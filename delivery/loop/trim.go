package loop

import (
	"context"
	"errors"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/lease"
)

// knownRecord is a record that the database knows of. Once it has for long, no older record is needed.
type knownRecord struct {
	session       delivery.Session
	last, written uint64    // as the publisher tells
	since         time.Time // when the database was seen to know all up to there; zero: it was not
}

// trimEvery lies between two searches for old records: long where all stay.
func trimEvery(c Config) time.Duration {
	const most = 10 * time.Second
	if c.KeepRecords == 0 {
		return most
	}
	return min(most, max(c.KeepRecords/2, 50*time.Millisecond))
}

// trimLater lies between two tries to remove records, where nobody may.
const trimLater = time.Hour

// trim has the stream let go of records that the database has known of for KeepRecords (ADR 28): only one that forgot
// as much would have them read. It is done in the background, for one partition after the other.
func (r *Relay) trim(ctx context.Context) {
	now := time.Now()
	if r.cfg.KeepRecords == 0 || r.trimming || now.Before(r.trimAgain) {
		return
	}
	type job struct {
		lease *lease.Lease
		knownRecord
	}
	var due []job
	for _, f := range r.partitions {
		if f.session == nil || !f.lease.Valid() {
			continue
		}
		k := &f.record
		if k.session != f.session {
			*k = knownRecord{session: f.session}
			k.last, k.written = r.publisher.Records(f.session)
		}
		switch {
		case k.since.IsZero() && f.knows(k.last):
			k.since = now
		case !k.since.IsZero() && now.Sub(k.since) >= r.cfg.KeepRecords:
			due = append(due, job{f.lease, *k})
			*k = knownRecord{}
		}
	}
	if len(due) == 0 {
		return
	}
	r.trimming = true
	r.begin(func() report {
		var err error
		for _, d := range due {
			for more := true; more && err == nil && d.lease.Valid(); {
				began := time.Now()
				if more, err = r.publisher.Trim(ctx, d.lease.Partition, d.session, d.last, d.written); err == nil {
					err = delivery.Breathe(ctx, time.Since(began))
				}
			}
		}
		return trimmed{err}
	})
}

// trimmed ends it. What failed for another reason than a right is tried again in its time.
func (r *Relay) trimmed(err error) {
	r.trimming = false
	if !errors.Is(err, delivery.ErrConfiguration) {
		return
	}
	if r.trimAgain.IsZero() { // it is said once
		r.log.Warn("the records of former batches stay in the stream: let workers purge it, or run `postrider partitions trim` now and then", "error", err)
	}
	r.trimAgain = time.Now().Add(trimLater)
}

// knows reports whether the database knows of all records up to that one. The last one may be a fence, which names no message.
func (f *partitionState) knows(last uint64) bool {
	return f.recorded >= last || f.state == ready && len(f.unmarked) == 0
}
