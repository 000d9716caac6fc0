package loop

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/partition"
)

// healReport pages lie between two log lines of a long healing.
const healReport = 50

// formerLoss looks for what the stream lost of partitions that are no more and that this one answers for.
func (t *takeover) formerLoss(ctx context.Context) (lost bool, err error) {
	var former []delivery.FormerPartition
	err = t.within(ctx, func(ctx context.Context) (err error) {
		former, err = t.store.FormerPartitions(ctx, t.lease.Partition)
		return err
	})
	if err != nil || len(former) == 0 {
		return false, err
	}
	ids := make([]partition.ID, len(former))
	for i, f := range former {
		ids[i] = f.ID
	}
	kept, err := t.keptOf(ctx, ids)
	if err != nil {
		return false, err
	}
	for i, f := range former {
		lost = lost || kept[i] < int64(f.Fence) // a stream's sequence never reaches 2^63
	}
	return lost, nil
}

// keptOf asks up to where the stream holds what was published under each of the partitions.
func (t *takeover) keptOf(ctx context.Context, ids []partition.ID) ([]int64, error) {
	kept := make([]int64, len(ids))
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(keptAtOnce)
	for i, id := range ids {
		asking.Go(func() error {
			at, err := t.publisher.Kept(ctx, id)
			kept[i] = int64(at) // a stream's sequence never reaches 2^63
			return err
		})
	}
	return kept, asking.Wait()
}

// keptAtOnce is of how many partitions at once the stream is asked: after a large shrink there are thousands.
const keptAtOnce = 16

// heal queues again what the stream lost: what is older than the last resize first,
// whoever's it was, since the same streams may go on in any of the partitions.
func (t *takeover) heal(ctx context.Context, loss delivery.Loss) (all delivery.Healed, err error) {
	var ids []partition.ID
	var kept []int64
	if err := t.within(ctx, func(ctx context.Context) (err error) {
		ids, err = t.store.EveryPartition(ctx)
		return err
	}); err != nil {
		return all, err
	}
	if len(ids) > 0 {
		if kept, err = t.keptOf(ctx, ids); err != nil {
			return all, err
		}
		after := int64(0)
		if err := t.healPages(ctx, &all, func(ctx context.Context) (h delivery.Healed, done bool, err error) {
			h, after, err = t.store.HealFormer(ctx, t.lease, ids, kept, loss.Age, after)
			return h, after == 0, err
		}); err != nil {
			return all, err
		}
	}
	before := delivery.EveryBatch
	return all, t.healPages(ctx, &all, func(ctx context.Context) (h delivery.Healed, done bool, err error) {
		h, before, done, err = t.store.Heal(ctx, t.lease, loss, before)
		return h, done, err
	})
}

// healPages gives each page the time of a statement: a long history takes many.
func (t *takeover) healPages(ctx context.Context, all *delivery.Healed, page func(context.Context) (delivery.Healed, bool, error)) error {
	for n, done := 1, false; !done; n++ {
		if t.lease.Context().Err() != nil {
			return delivery.ErrLeaseGone
		}
		var h delivery.Healed
		if err := t.within(ctx, func(ctx context.Context) (err error) {
			h, done, err = page(ctx)
			return err
		}); err != nil {
			return err
		}
		all.Lost, all.Queued = all.Lost+h.Lost, all.Queued+h.Queued
		if n%healReport == 0 {
			t.log.Info("lost messages are being queued again", "partition", t.lease.Partition, "lost", all.Lost, "queued", all.Queued)
		}
	}
	return nil
}
