package delivery

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// NewShadowRelay returns a relay that rehearses: it claims and reads as a relay of
// that configuration would, gives everything to the publisher, and writes nothing.
// What it settled, and what failed and waits for its next attempt, it keeps in
// memory; rows that are delivered by others vanish from there, too. The store's
// sessions may be read-only. Registered metrics count what would have been done.
func NewShadowRelay(cfg Config, store *Store, publisher Publisher, bell Doorbell) (*Relay, error) {
	return newRelay(cfg, &shadowStore{Store: store, rows: map[partition.ID]map[int64]rehearsed{}}, publisher, bell)
}

// How many rows of a partition a shadow settles ahead of those who deliver them,
// and of all partitions together about: each of its claims reads them again.
const (
	shadowAhead = 10_000
	shadowTotal = 100_000
	shadowLeast = 200 // of a partition, however many there are
)

// rehearsed is what became of a row here.
type rehearsed struct {
	generation int
	stream     string
	parked     bool
	settled    bool
	// A row that failed: how often here, when it is due again, and whether it would
	// be dead.
	attempts int
	due      time.Time
	dead     bool
}

// shadowStore reads what a Store reads and remembers what it would write.
type shadowStore struct {
	*Store

	mu   sync.Mutex
	rows map[partition.ID]map[int64]rehearsed
	// asked is the most partitions of one claim.
	asked int

	// The watermark, as in outbox_watermark.
	safe, candidate int64
	holders         []string
}

var _ backend = (*shadowStore)(nil)

// advance proves a watermark as Store.Advance does, and keeps it here.
func (s *shadowStore) advance(ctx context.Context) (Watermark, error) {
	var (
		highest, stored int64
		writers         []string
		recovered       bool
	)
	batch := &pgx.Batch{}
	s.sql.Planning.Queue(batch, nil)
	s.sql.Writers.Queue(batch, pg.Args{"relation": s.events}).QueryRow(func(row pgx.Row) error { return row.Scan(&highest, &stored, &writers, &recovered) })
	if err := s.db.SendBatch(ctx, batch).Close(); err != nil {
		return Watermark{}, fmt.Errorf("look at the watermark: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.safe = max(s.safe, stored)
	s.holders = slices.DeleteFunc(s.holders, func(h string) bool { return !slices.Contains(writers, h) })
	if s.candidate > 0 && len(s.holders) == 0 && !recovered {
		s.safe, s.candidate = max(s.safe, s.candidate), 0
	}
	switch {
	case len(writers) == 0:
		s.safe, s.candidate = max(s.safe, highest), 0
	case s.candidate <= s.safe && highest > s.safe:
		s.candidate, s.holders = highest, writers
	}
	return Watermark{Safe: s.safe, Highest: max(highest, s.safe)}, nil
}

// Claim reads from the beginning of each partition, as nothing that was settled
// here goes away by itself, and leaves out what is not due here or waits behind
// such a row.
func (s *shadowStore) Claim(ctx context.Context, asks []Ask, limits Limits, policy FailurePolicy) (Claim, error) {
	var safe Watermark
	if limits.Watermark {
		var err error
		if safe, err = s.advance(ctx); err != nil {
			return Claim{}, err
		}
		limits.Watermark, limits.UpTo = false, safe.Safe
	}
	limits.Payload = 0
	wide := slices.Clone(asks)
	room := limits.Total
	s.mu.Lock()
	s.asked = max(s.asked, len(asks))
	ahead := min(shadowAhead, max(shadowLeast, shadowTotal/max(1, s.asked)))
	for i, a := range asks {
		known := len(s.rows[a.Lease.Partition])
		wide[i].After, wide[i].Most = nowhere, min(a.Most+known, ahead)
		limits.Total += known
	}
	s.mu.Unlock()
	found, err := s.Store.Claim(ctx, wide, limits, policy)
	if err != nil {
		return found, err
	}
	found.Watermark, found.expecting = safe, true // what failed here comes due without being written
	if err := s.release(ctx, found.Batches, policy); err != nil {
		found.Close()
		return Claim{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[partition.ID]Batch{}
	total := 0
	for _, b := range found.Batches {
		seen[b.Lease.Partition] = b
		total += len(b.Messages)
	}
	found.Batches = found.Batches[:0]
	for i, a := range asks {
		b := seen[a.Lease.Partition]
		if len(b.Messages) < wide[i].Most && total < limits.Total {
			s.pruneLocked(a.Lease.Partition, b.Messages)
		}
		b.Messages = s.freshLocked(b.Messages, policy)
		if take := min(len(b.Messages), a.Most, room); take < len(b.Messages) {
			b.Messages, b.More = b.Messages[:take], true
		}
		if room -= len(b.Messages); len(b.Messages) > 0 {
			found.Batches = append(found.Batches, b)
		}
	}
	return found, nil
}

// release lets rows go that wait, by the database, for parked rows that were
// settled here.
func (s *shadowStore) release(ctx context.Context, batches []Batch, policy FailurePolicy) error {
	var ids []partition.ID
	var streams []string
	asked := map[streamKey]bool{}
	if !slices.ContainsFunc(batches, func(b Batch) bool {
		return slices.ContainsFunc(b.Messages, func(m Message) bool { return m.Blocked })
	}) {
		return nil
	}
	s.mu.Lock()
	passed := map[streamKey]bool{}
	for id, rows := range s.rows {
		for _, r := range rows {
			if r.parked && r.settled {
				passed[streamKey{id, r.stream}] = true
			}
		}
	}
	s.mu.Unlock()
	for _, b := range batches {
		for _, m := range b.Messages {
			key := streamKey{m.Partition, m.Stream}
			if m.Blocked && passed[key] && !asked[key] {
				asked[key] = true
				ids, streams = append(ids, m.Partition), append(streams, m.Stream)
			}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := s.sql.ParkedOf.Rows(ctx, s.db, pg.Args{"partitions": ids, "stream_ids": streams})
	if err != nil {
		return fmt.Errorf("look at parked rows: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	first := map[streamKey]int64{} // that is not settled here
	var key streamKey
	var sequence int64
	var generation int
	var dead bool
	if _, err := pgx.ForEachRow(rows, []any{&key.partition, &key.stream, &sequence, &generation, &dead}, func() error {
		r, known := s.rows[key.partition][sequence]
		settled := known && r.settled && r.generation == generation
		if at, there := first[key]; !settled && (!dead || !policy.skipsDead()) && (!there || sequence < at) {
			first[key] = sequence
		}
		return nil
	}); err != nil {
		return fmt.Errorf("look at parked rows: %w", err)
	}
	for _, b := range batches {
		for i := range b.Messages {
			m := &b.Messages[i]
			if key := (streamKey{m.Partition, m.Stream}); asked[key] {
				at, there := first[key]
				m.Blocked = m.Blocked && there && at < m.Sequence
			}
		}
	}
	return nil
}

// pruneLocked forgets the rows of a partition that are gone.
func (s *shadowStore) pruneLocked(id partition.ID, messages []Message) {
	there := make(map[int64]bool, len(messages))
	for _, m := range messages {
		there[m.Sequence] = true
	}
	for sequence := range s.rows[id] {
		if !there[sequence] {
			delete(s.rows[id], sequence)
		}
	}
}

// freshLocked returns the rows that would be published now.
func (s *shadowStore) freshLocked(messages []Message, policy FailurePolicy) []Message {
	var fresh []Message
	held := map[string]bool{}
	now := time.Now()
	for _, m := range messages {
		r, known := s.rows[m.Partition][m.Sequence]
		known = known && r.generation == m.Generation
		waits := m.Blocked || m.NotDue || known && !r.settled && (r.dead || now.Before(r.due))
		switch {
		case known && r.settled || held[m.Stream]:
		case waits:
			held[m.Stream] = !policy.passes() && (!known || !r.dead || !policy.skipsDead())
		default:
			if known {
				m.Attempts += r.attempts
			}
			fresh = append(fresh, m)
		}
	}
	return fresh
}

// Mark remembers the outcomes.
func (s *shadowStore) Mark(_ context.Context, results []Result, retry RetryPolicy, random func() float64) ([]partition.ID, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, res := range results {
		for i, o := range res.Outcomes {
			m := res.Batch.Messages[i]
			if s.rows[m.Partition] == nil {
				s.rows[m.Partition] = map[int64]rehearsed{}
			}
			before := s.rows[m.Partition][m.Sequence]
			switch o.Kind {
			case Published, Skipped:
				s.rows[m.Partition][m.Sequence] = rehearsed{generation: m.Generation, stream: m.Stream, parked: m.Parked, settled: true}
			case Retry, Permanent:
				s.rows[m.Partition][m.Sequence] = rehearsed{
					generation: m.Generation, stream: m.Stream, parked: m.Parked, attempts: before.attempts + 1, due: time.Now().Add(retry.Delay(m.Attempts+1, random)),
					dead: o.Kind == Permanent || retry.Dead(m.Attempts+1),
				}
			case Unresolved, Behind, Scheduled:
			}
		}
	}
	return nil, time.Time{}, nil
}

// Rehydrate reads without making durable what was read: nothing is published.
func (s *shadowStore) Rehydrate(ctx context.Context, _ Claim, sequences []int64, maxPayload, maxBytes int64) (map[int64]*Event, int64, error) {
	return s.read(ctx, sequences, maxPayload, maxBytes)
}

// What a shadow leaves to those who deliver.

func (s *shadowStore) Unblock(context.Context, *lease.Lease, FailurePolicy) error { return nil }

func (s *shadowStore) Suspect(context.Context, *lease.Lease, int64) error { return nil }

func (s *shadowStore) Heal(context.Context, *lease.Lease, uint64) (Healed, error) {
	return Healed{}, nil
}

func (s *shadowStore) Regress(context.Context, partition.ID, int, string) (int, error) { return 0, nil }
