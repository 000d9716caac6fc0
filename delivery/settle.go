package delivery

import (
	"context"
	"slices"
	"time"
)

// markLoop settles published batches, as many in one statement as are waiting.
func (r *Relay) markLoop(ctx context.Context) {
	for c := range r.finished {
		group := []carried{c}
		for total := c.messages; total < r.cfg.Window; {
			var next carried
			select {
			case next = <-r.finished:
			default:
			}
			if next.Batch.Lease == nil { // none waiting, or the channel is closed
				break
			}
			group = append(group, next)
			total += next.messages
		}
		r.settle(ctx, group)
	}
}

// settle marks the batches and gives their room back. A mark that fails is
// repeated while its leases are trusted and the relay runs: until then nobody
// else can have published the rows again.
func (r *Relay) settle(ctx context.Context, group []carried) {
	var results []Result
	for _, c := range group {
		if slices.ContainsFunc(c.Outcomes, func(o Outcome) bool { return o.Kind != Unresolved }) {
			results = append(results, c.Result)
		}
	}
	for failures := 0; len(results) > 0; failures++ {
		// What was published is marked even when the relay is told to stop.
		markCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.StatementTimeout)
		err := r.tryMark(markCtx, results)
		cancel()
		if err == nil {
			break
		}
		r.away(err)
		timer := time.NewTimer(outageWait(failures + 1))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			results = nil
		}
		results = slices.DeleteFunc(results, func(res Result) bool { return !res.Batch.Lease.Valid() })
	}
	for _, c := range group {
		r.settled(c.Batch, c.messages, c.bytes)
	}
}

// tryMark marks once and ends the leases that turned out to be fenced.
func (r *Relay) tryMark(ctx context.Context, results []Result) error {
	fenced, err := r.store.Mark(ctx, results, r.cfg.Retry, r.cfg.Random)
	if err != nil {
		return err
	}
	for _, res := range results {
		if slices.Contains(fenced, res.Batch.Lease.Partition) {
			r.stats.fenced.Add(int64(len(res.Outcomes)))
			r.log.Warn("fenced: the lease went to another worker; nothing was changed",
				"partition", res.Batch.Lease.Partition, "epoch", res.Batch.Lease.Epoch, "messages", len(res.Outcomes))
			res.Batch.Lease.Lost()
			continue
		}
		r.stats.settled(res, r.cfg.Retry)
	}
	return nil
}
