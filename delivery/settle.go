package delivery

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// markLoop settles published batches, as many in one statement as are waiting.
func (r *Relay) markLoop(ctx context.Context) {
	var marking sync.WaitGroup
	defer marking.Wait()
	for c := range r.finished {
		r.settle(ctx, r.gather(c), &marking)
	}
}

// company is how long a small batch waits to be marked with others: what is
// answered together ends one after the other.
const company = 250 * time.Microsecond

// gather returns the batch with those that are finished, too, or soon.
func (r *Relay) gather(c carried) []carried {
	group, total := []carried{c}, c.messages
	timer := time.NewTimer(company)
	defer timer.Stop()
	for total < r.cfg.Window {
		var next carried
		select {
		case next = <-r.finished:
		default:
			if total >= r.cfg.BatchSize {
				return group
			}
			select {
			case next = <-r.finished:
			case <-timer.C:
			}
		}
		if next.Batch.Lease == nil { // none came, or the channel is closed
			return group
		}
		group = append(group, next)
		total += next.messages
	}
	return group
}

// settle marks the batches together. When that fails, each is settled for
// itself, so that one partition's trouble holds up no other.
func (r *Relay) settle(ctx context.Context, group []carried, marking *sync.WaitGroup) {
	var results []Result
	for _, c := range group {
		if slices.ContainsFunc(c.Outcomes, func(o Outcome) bool { return o.Kind != Unresolved }) {
			results = append(results, c.Result)
		}
	}
	if len(results) > 0 {
		if err := r.tryMark(ctx, results); err != nil {
			r.stats.failure(err)
			r.log.Warn("mark failed; each partition is marked for itself", "error", err, "partitions", len(results))
			for _, c := range group {
				marking.Go(func() { r.settleAlone(ctx, c) })
			}
			return
		}
	}
	for _, c := range group {
		r.settled(c.Batch, c.messages, c.bytes)
	}
}

// settleAlone marks one batch, again and again while its lease is trusted and
// the relay runs: until then nobody else can have published the rows again.
func (r *Relay) settleAlone(ctx context.Context, c carried) {
	defer r.settled(c.Batch, c.messages, c.bytes)
	for failures := 1; c.Batch.Lease.Valid(); failures++ {
		err := r.tryMark(ctx, []Result{c.Result})
		other := errors.Is(err, ErrOtherServer)
		if other {
			err = nil
		}
		r.cfg.Board.ReportFor("marks of "+boardName(c.Batch.Lease.Partition), err, alonePauses)
		if other { // who takes the partition anew sees what the stream holds
			r.forget(c.Batch.Lease.Partition)
			r.log.Info("a batch is not marked: it was claimed from another database server, or before this one was started again",
				"partition", c.Batch.Lease.Partition, "messages", len(c.Outcomes))
		}
		if err == nil {
			return
		}
		r.stats.failure(err)
		r.log.Warn("mark failed; trying again while the lease is ours",
			"error", err, "partition", c.Batch.Lease.Partition, "failures", failures)
		timer := time.NewTimer(outageWait(failures))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// tryMark marks once and ends the leases that turned out to be fenced.
func (r *Relay) tryMark(ctx context.Context, results []Result) error {
	// What was published is marked even when the relay is told to stop.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.StatementTimeout)
	defer cancel()
	began := r.clock()
	fenced, marked, err := r.store.Mark(ctx, results, r.cfg.Retry, r.cfg.Random)
	if r.cfg.Observer != nil {
		r.cfg.Observer.Marked(began, results, err)
	}
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
		r.died(res)
		r.progress(res, marked)
	}
	return nil
}

// died logs the messages that wait for a person from now on, each once.
func (r *Relay) died(res Result) {
	for i, o := range res.Outcomes {
		if !dies(res.Batch.Messages[i], o, r.cfg.Retry) {
			continue
		}
		m, kind := res.Batch.Messages[i], ""
		if m.Event != nil {
			kind = m.Event.Type
		}
		r.log.Warn("a message died", "sequence", m.Sequence, "stream", m.Stream, "topic", m.Topic, "type", kind,
			"partition", m.Partition, "attempts", m.Attempts+1, "reason", Reason(o.Err))
	}
}

// dies tells whether a failure was the message's last one.
func dies(m Message, o Outcome, retry RetryPolicy) bool {
	return o.Kind == Permanent || o.Kind == Retry && retry.Dead(m.Attempts+1)
}
