package loop

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// RehearsalStore is a Store that can be looked at without taking or storing anything.
type RehearsalStore interface {
	delivery.Store
	FirstParked(ctx context.Context, streams []delivery.StreamKey, policy delivery.FailurePolicy, longest time.Duration) (map[delivery.StreamKey]int64, error)
	Writers(ctx context.Context) (delivery.Writers, error)
}

// Rehearser reads what a relay of its configuration would claim, makes the messages, has the publisher judge them, and counts. It writes
// nothing, so the store's sessions may be read-only. Every row is looked at once, when it comes below the watermark or is due: what fails is
// not tried again, and what waits behind a failure, a dead message or one that is not due is not counted.
type Rehearser struct {
	relay  *Relay // shapes, publishes and counts; it never runs
	store  RehearsalStore
	leases []*lease.Lease
	after  map[partition.ID]int64
	// counted are the parked rows that were looked at, with their generations: others end them.
	counted map[partition.ID]map[int64]int
	// failed are the streams that go no further, since one of their messages failed here.
	failed *lru.Cache[delivery.StreamKey, bool]

	// The watermark, as in outbox_watermark.
	safe, candidate int64
	holders         []string
}

// failedStreams bounds the streams with failures that a rehearser remembers.
const failedStreams = 100_000

// NewRehearser returns one of all partitions; Run starts it. Registered metrics count what would have been done.
func NewRehearser(cfg Config, store RehearsalStore, publisher delivery.Publisher, bell Doorbell, partitions partition.Count) (*Rehearser, error) {
	relay, err := NewRelay(cfg, store, publisher, bell)
	if err != nil {
		return nil, err
	}
	failed, err := lru.New[delivery.StreamKey, bool](failedStreams)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", delivery.ErrConfig, err)
	}
	s := &Rehearser{relay: relay, store: store, failed: failed, after: map[partition.ID]int64{}, counted: map[partition.ID]map[int64]int{}}
	for id := range partitions {
		s.leases = append(s.leases, lease.Untimed(partition.ID(id), uuid.Nil, 0))
		s.after[partition.ID(id)], s.counted[partition.ID(id)] = nowhere, map[int64]int{}
	}
	return s, nil
}

// Stats returns the counts so far.
func (s *Rehearser) Stats() Stats { return s.relay.Stats() }

// Run rehearses until the context ends, or once: until nothing is left that could be published now. Then it waits a second for
// transactions that hold the watermark back.
func (s *Rehearser) Run(ctx context.Context, once bool) error {
	wait := backoff{least: watermarkPoll, most: s.relay.cfg.PollInterval}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for failures := 0; ; {
		found, err := s.look(ctx)
		next := wait.next(time.Now(), s.relay.stats.watermark.Load())
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			failures++
			next = outageWait(failures)
			s.relay.stats.failure(err)
			s.relay.log.Warn("the rehearsal cannot look", "error", err, "for", next.Round(time.Millisecond), "failures", failures)
		case found > 0:
			failures = 0
			continue
		case once && !wait.moving(time.Now()):
			return nil
		default:
			failures = 0
		}
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-s.relay.bell.Rung():
		}
	}
}

// look counts what can be published now, as much as fits into one claim, and returns how many rows it got behind.
func (s *Rehearser) look(ctx context.Context) (rows int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.relay.cfg.StatementTimeout)
	defer cancel()
	watermark, err := s.advance(ctx)
	if err != nil {
		return 0, err
	}
	s.relay.stats.watermark.Store(&watermark)
	limits := delivery.Limits{Total: s.relay.cfg.Window, UpTo: watermark.Safe, Longest: s.relay.cfg.Retry.Max}
	asks := make([]delivery.Ask, len(s.leases))
	for i, l := range s.leases {
		known := len(s.counted[l.Partition])
		asks[i] = delivery.Ask{Lease: l, After: s.after[l.Partition], Most: s.relay.cfg.BatchSize + known}
		limits.Total += known
	}
	// Nothing is left out here for what lies before it in its stream: that is judged below, by what was counted, too.
	found, err := s.store.Claim(ctx, asks, limits, delivery.BehindNone)
	if err != nil {
		return 0, err
	}
	waiting, err := s.waiting(ctx, found.Batches)
	if err != nil {
		return 0, err
	}
	for _, b := range found.Batches {
		n, err := s.rehearse(ctx, b, waiting)
		if rows += n; err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// rehearse counts what a batch holds that may be published, and goes behind it.
func (s *Rehearser) rehearse(ctx context.Context, b delivery.Batch, waiting map[delivery.StreamKey]int64) (rows int, err error) {
	id := b.Lease.Partition
	var sequences []int64
	seen := map[int64]int{}
	last := s.after[id]
	b.Messages = slices.DeleteFunc(b.Messages, func(m delivery.Message) bool {
		key := delivery.StreamKey{Partition: id, Stream: m.Stream}
		generation, before := s.counted[id][m.Sequence]
		before = before && generation == m.Generation
		if m.Parked {
			seen[m.Sequence] = m.Generation
		} else {
			last = max(last, m.Sequence)
		}
		if before {
			return true
		}
		rows++
		first, waits := waiting[key]
		if waits = waits && first < m.Sequence || s.failed.Contains(key); !waits {
			sequences = append(sequences, m.Sequence)
		}
		return waits
	})
	most := s.relay.shaping.Largest(s.relay.publisher.Capabilities())
	for len(b.Messages) > 0 {
		events, cutAt, err := s.store.Rehydrate(ctx, time.Time{}, sequences, most.Bytes, s.relay.cfg.WindowBytes/4/s.relay.copies)
		if err != nil {
			return 0, err
		}
		part, _ := attach(delivery.Batch{Lease: b.Lease, Messages: slices.Clone(b.Messages)}, events, cutAt)
		var res delivery.Result
		s.relay.publish([]*inflight{{Result: delivery.Result{Batch: part}}}, most, func(c *inflight) { res = c.Result }) //nolint:contextcheck // a batch lives as long as its lease
		for i, o := range res.Outcomes {
			if o.Kind == delivery.Unresolved {
				return 0, fmt.Errorf("partition %d: %w", id, o.Err)
			}
			s.note(part.Messages[i], o)
		}
		s.relay.stats.claimed.Add(int64(len(part.Messages)))
		s.relay.stats.completed(res, s.relay.cfg.Retry)
		b.Messages, sequences = b.Messages[len(part.Messages):], sequences[len(part.Messages):]
	}
	s.after[id], s.counted[id] = last, seen
	return rows, nil
}

// note remembers a stream that goes no further.
func (s *Rehearser) note(m delivery.Message, o delivery.Outcome) {
	policy := s.relay.cfg.Failure
	passed := policy.Passes() || policy.SkipsDead() && s.relay.cfg.Retry.Dies(m, o)
	if (o.Kind == delivery.Retry || o.Kind == delivery.Permanent) && !passed {
		s.failed.Add(delivery.StreamKey{Partition: m.Partition, Stream: m.Stream}, true)
	}
}

// waiting is the first parked row of each stream that holds up what follows.
func (s *Rehearser) waiting(ctx context.Context, batches []delivery.Batch) (map[delivery.StreamKey]int64, error) {
	if s.relay.cfg.Failure.Passes() {
		return nil, nil
	}
	asked := map[delivery.StreamKey]bool{}
	var streams []delivery.StreamKey
	for _, b := range batches {
		for _, m := range b.Messages {
			if key := (delivery.StreamKey{Partition: m.Partition, Stream: m.Stream}); !asked[key] {
				asked[key] = true
				streams = append(streams, key)
			}
		}
	}
	return s.store.FirstParked(ctx, streams, s.relay.cfg.Failure, s.relay.cfg.Retry.Max)
}

// advance proves a watermark as the store does, and keeps it here.
func (s *Rehearser) advance(ctx context.Context) (delivery.Watermark, error) {
	w, err := s.store.Writers(ctx)
	if err != nil {
		return delivery.Watermark{}, err
	}
	s.safe = max(s.safe, w.Stored)
	s.holders = slices.DeleteFunc(s.holders, func(h string) bool { return !slices.Contains(w.Open, h) })
	if s.candidate > 0 && len(s.holders) == 0 && !w.Recovered {
		s.safe, s.candidate = max(s.safe, s.candidate), 0
	}
	switch {
	case len(w.Open) == 0:
		s.safe, s.candidate = max(s.safe, w.Highest), 0
	case s.candidate <= s.safe && w.Highest > s.safe:
		s.candidate, s.holders = w.Highest, w.Open
	}
	return delivery.Watermark{Safe: s.safe, Highest: max(w.Highest, s.safe)}, nil
}
