package natspub

import (
	"context"

	"github.com/postrider/postrider/delivery"
)

// suspicion tells a batch that the stream refuses for what is in it from one that
// was torn by an election or a broken connection: the server answers both as
// incomplete.
type suspicion struct {
	run        *fencedRun
	incomplete int
	reconnects uint64
}

// confirmed notes one more such answer to a batch of so many messages. Several in a row over one connection are
// enough to halve a batch, which harms nothing. A single message is accused only
// when the stream stores a control message of the partition each time between.
func (s *suspicion) confirmed(ctx context.Context, messages int) bool {
	if now := s.run.nc.Stats().Reconnects; now != s.reconnects {
		s.incomplete, s.reconnects = 0, now
	}
	s.incomplete++
	if messages == 1 && !s.run.storesControl(ctx) {
		s.incomplete = 0
	}
	return s.incomplete >= incompleteToSplit
}

// storesControl writes the partition's record again, under the same expectation
// as any batch.
func (r *fencedRun) storesControl(ctx context.Context) bool {
	ans := r.ask(ctx, r.control(r.subject, record{
		Kind: kindFence, Epoch: r.batch.Lease.Epoch, Owner: r.batch.Lease.Owner, Batch: r.session.batch, Attempt: r.attempt(),
		Kept: r.session.kept, Parts: r.session.parts,
	}, r.session.last))
	if ans.err != nil {
		return false
	}
	r.session.last = ans.sequence
	r.session.wrote(ans.sequence)
	return true
}

// orRetry is the kind of a single message that was refused again and again.
func orRetry(k delivery.Kind) delivery.Kind {
	if k == delivery.Permanent {
		return k
	}
	return delivery.Retry
}
