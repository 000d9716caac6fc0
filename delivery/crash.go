package delivery

import (
	"context"

	"github.com/postrider/postrider/lease"
)

// CrashesToPause owners in a row that marked nothing pause a partition. The first may have ended over anything;
// the others were publishing its messages. Workers that are killed at random hardly ever end so, again and again.
const CrashesToPause = 4

// noteInflight stores that messages are about to be published behind a crash.
func (r *Relay) noteInflight(ctx context.Context, look []*inflight) error {
	var leases []*lease.Lease
	for _, c := range look {
		if c.crashed {
			leases = append(leases, c.Batch.Lease)
		}
	}
	if len(leases) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.StatementTimeout)
	defer cancel()
	return r.store.Carrying(ctx, leases, true)
}

// abandon ends a batch whose outcomes all stay unknown. No worker ended over its messages, so an outage pauses no partition.
func (r *Relay) abandon(c *inflight) {
	if !c.crashed || !c.Batch.Lease.Valid() {
		r.complete(c)
		return
	}
	r.begin(func() report {
		ctx, cancel := context.WithTimeout(c.Batch.Lease.Context(), r.cfg.StatementTimeout)
		defer cancel()
		if err := r.store.Carrying(ctx, []*lease.Lease{c.Batch.Lease}, false); err != nil { // the batch is published again
			r.log.Debug("a partition stays noted as carried", "partition", c.Batch.Lease.Partition, "error", err)
		}
		return abandoned{c}
	})
}

// pauseOver pauses a partition over whose first messages owners ended, one after the other, until a person resumes it.
func (t *takeover) pauseOver(ctx context.Context) error {
	if t.lease.Progress.Crashes < CrashesToPause {
		return nil
	}
	sequence, stream, err := t.store.PauseOver(ctx, t.lease, CrashesToPause, "workers ended one after the other while they carried its first messages")
	if err == nil && sequence > 0 {
		t.log.Error("THE PARTITION IS PAUSED: workers ended one after the other while they carried its first messages; mend what ends them, then resume it",
			"partition", t.lease.Partition, "workers", t.lease.Progress.Crashes, "sequence", sequence, "stream", stream)
	}
	return err
}
