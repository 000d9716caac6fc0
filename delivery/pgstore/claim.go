package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/internal/arena"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// Claim (ADR 5) reads the next undelivered rows of the partitions asked for, the first
// ones first. It writes nothing; the lease is what keeps others away.
//
// The watermark is proven before any row is read: each statement has a snapshot of
// its own, and what was proven holds for later ones only. Parked rows are read before
// ready ones: a row that shows in the earlier snapshot has its predecessors in the
// later one. ErrForgotten: the row of one of the partitions is not as it was left.
func (s *Store) Claim(ctx context.Context, asks []delivery.Ask, limits delivery.Limits, policy delivery.FailurePolicy) (delivery.Claim, error) {
	ids, revisions := rowsOf(asks)
	after, most := make(bigints, len(asks)), make(integers, len(asks))
	for i, a := range asks {
		after[i], most[i] = a.After, int32(a.Most) // at most 10,000
	}
	var parked, ready []delivery.Message
	var c delivery.Claim
	var era int
	batch := &pgx.Batch{}
	s.sql.Begin.Queue(batch, nil).QueryRow(func(row pgx.Row) error { return row.Scan(&c.Began, nil) })
	if limits.Watermark {
		s.sql.Prove.Queue(batch, pg.Args{"relation": s.events, "apart": max(1, limits.Apart)}).
			QueryRow(func(row pgx.Row) error { return row.Scan(&c.Watermark.Safe, &c.Watermark.Highest, &c.Advance, nil) })
	}
	if !limits.ReadyOnly {
		longest := cmp.Or(limits.Longest, delivery.DefaultRetryPolicy().Max)
		query, args := s.sql.ClaimDue, pg.Args{
			"partitions": ids, "revisions": revisions, "most": most, "total": limits.Total, "longest": longest,
			"up_to": limits.UpTo, "proven": limits.Watermark,
		}
		if !policy.Passes() {
			query, args["skip_dead"] = s.sql.ClaimParked, policy.SkipsDead()
		}
		query.Queue(batch, args).Query(collectClaimed(&parked, true, nil))
	}
	query, args := s.sql.ClaimReady, pg.Args{
		"partitions": ids, "revisions": revisions, "after": after, "most": most, "total": limits.Total, "up_to": limits.UpTo, "proven": limits.Watermark,
		"passes": policy.Passes(), "skip_dead": policy.SkipsDead(),
	}
	if limits.Payload > 0 {
		query, args["payload"], c.Events = s.sql.ClaimLittle, limits.Payload, map[int64]*delivery.Event{}
	}
	query.Queue(batch, args).Query(collectClaimed(&ready, false, c.Events))
	s.sql.Server.Queue(batch, nil).QueryRow(func(row pgx.Row) error { return row.Scan(&era, &c.Server, &c.Expecting) })
	err := s.db.SendBatch(ctx, batch).Close()
	switch {
	case divided(err): // or the relation of events did
		return delivery.Claim{}, fmt.Errorf("claim: %w: %w", delivery.ErrForgotten, err)
	case err != nil:
		return delivery.Claim{}, fmt.Errorf("claim: %w", err)
	}
	if !policy.Passes() {
		parked = dueOnly(parked)
	}
	c.Batches = share(asks, parked, ready, limits.Total)
	for n, b := range c.Batches {
		c.Batches[n].Server = c.Server
		for i := range b.Messages {
			b.Messages[i].Era = era
		}
	}
	return c, nil
}

// rowsOf returns the parameters that claims compare with the partitions' rows.
func rowsOf(asks []delivery.Ask) (ids keys, revisions positions) {
	ids, revisions = make(keys, len(asks)), make(positions, len(asks))
	for i, a := range asks {
		ids[i], revisions[i] = a.Lease.Partition, uint64(a.Revision) // never below 0
	}
	return ids, revisions
}

// Forgotten returns the partitions of these whose rows are not as they were left.
func (s *Store) Forgotten(ctx context.Context, asks []delivery.Ask) ([]partition.ID, error) {
	ids, revisions := rowsOf(asks)
	forgotten, err := pg.Collect(ctx, s.db, s.sql.Forgotten, pg.Args{"partitions": ids, "revisions": revisions}, pgx.RowTo[partition.ID])
	if err != nil {
		return nil, fmt.Errorf("compare the partitions' rows: %w", err)
	}
	return forgotten, nil
}

// Position tells where the write-ahead log ends. Whoever commits anything moves it.
func (s *Store) Position(ctx context.Context) (position string, err error) {
	if err := s.sql.LogPosition.Row(ctx, s.db, nil).Scan(&position); err != nil {
		return "", fmt.Errorf("position of the log: %w", err)
	}
	return position, nil
}

// collectClaimed appends what a claim found, in any order, and adds the events that
// came with it whole.
func collectClaimed(found *[]delivery.Message, parked bool, events map[int64]*delivery.Event) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var (
			m                    = delivery.Message{Pointer: delivery.Pointer{Parked: parked}}
			id                   int16
			generation, attempts int32
			stream, topic        pgtype.DriverBytes
			due                  bool
			streams, topics      arena.Texts
			reader               *eventReader
			scheduled            pgtype.Timestamptz
		)
		into := []any{&id, &m.Sequence, &generation, &attempts, &stream, &topic, &m.Blocked, &due}
		if parked {
			into = append(into, &scheduled)
		}
		if events != nil {
			reader = newEventReader()
			into = append(into, reader.into...)
		}
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				return err
			}
			m.Partition, m.Generation, m.Attempts, m.NotDue = partition.ID(id), int(generation), int(attempts), !due
			m.Stream, m.Topic, m.ScheduledFor = streams.Keep(stream), topics.Keep(topic), scheduled.Time
			*found = append(*found, m)
			if reader == nil || reader.sequence != m.Sequence {
				continue
			}
			if e := reader.event(); e.Unreadable != nil || reader.payload != nil {
				events[e.Sequence] = &e
			}
		}
		return rows.Err()
	}
}

// dueOnly cuts each stream's parked rows at the first one that is not due or dead.
// What remains is blocked by nothing: the stream's first parked row leads it.
func dueOnly(parked []delivery.Message) []delivery.Message {
	if len(parked) == 0 {
		return nil
	}
	sortMessages(parked)
	cut := map[delivery.StreamKey]bool{}
	return slices.DeleteFunc(parked, func(m delivery.Message) bool {
		key := delivery.StreamKey{Partition: m.Partition, Stream: m.Stream}
		cut[key] = cut[key] || m.NotDue
		return cut[key]
	})
}

func sortMessages(messages []delivery.Message) {
	if !slices.IsSortedFunc(messages, bySequence) {
		slices.SortFunc(messages, bySequence)
	}
}

func bySequence(a, b delivery.Message) int {
	return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Sequence, b.Sequence))
}

// share makes the batches, the first partitions asked for first, sorted by
// partition; room is the most messages of all.
func share(asks []delivery.Ask, parked, ready []delivery.Message, room int) []delivery.Batch {
	sortMessages(parked)
	sortMessages(ready)
	readyOf, parkedOf := byPartition(ready), byPartition(parked)
	full := len(ready) >= room // then ready rows may be missing
	cut := full || len(parked) >= room
	batches := make([]delivery.Batch, 0, len(readyOf))
	for _, a := range asks {
		id := a.Lease.Partition
		found := join(readyOf[id], parkedOf[id], full, len(readyOf[id]) >= a.Most)
		take := min(len(found), a.Most, room)
		if take == 0 {
			continue
		}
		room -= take
		batches = append(batches, delivery.Batch{Lease: a.Lease, Messages: found[:take:take], More: take < len(found) || take >= a.Most || cut})
	}
	slices.SortFunc(batches, func(a, b delivery.Batch) int { return cmp.Compare(a.Lease.Partition, b.Lease.Partition) })
	return batches
}

// byPartition cuts sorted messages where the partition changes.
func byPartition(messages []delivery.Message) map[partition.ID][]delivery.Message {
	parts := map[partition.ID][]delivery.Message{}
	for start := 0; start < len(messages); {
		id, end := messages[start].Partition, start+1
		for end < len(messages) && messages[end].Partition == id {
			end++
		}
		parts[id] = messages[start:end:end]
		start = end
	}
	return parts
}

// join merges what two claims found of a partition into one ascending list. When
// its ready rows may have been cut, by the claim's limit or by its own, a parked row
// behind the last of them waits: a ready row before it could be missing here.
func join(ready, parked []delivery.Message, claimFull, partitionFull bool) []delivery.Message {
	if claimFull && len(ready) == 0 || len(parked) == 0 {
		return ready
	}
	merged := make([]delivery.Message, 0, len(ready)+len(parked))
	merged = append(merged, ready...)
	for _, m := range parked {
		m.Blocked = false
		if (claimFull || partitionFull) && m.Sequence > ready[len(ready)-1].Sequence {
			continue
		}
		merged = append(merged, m)
	}
	sortMessages(merged)
	return merged
}

// FirstParked returns the first parked row of each of the streams that holds up what follows.
func (s *Store) FirstParked(ctx context.Context, streams []delivery.StreamKey, policy delivery.FailurePolicy, longest time.Duration) (map[delivery.StreamKey]int64, error) {
	ids, names := make([]partition.ID, len(streams)), make([]string, len(streams))
	for i, key := range streams {
		ids[i], names[i] = key.Partition, key.Stream
	}
	rows, err := s.sql.Waiting.Rows(ctx, s.db, pg.Args{"partitions": ids, "stream_ids": names, "skip_dead": policy.SkipsDead(), "longest": longest})
	if err != nil {
		return nil, fmt.Errorf("look at parked rows: %w", err)
	}
	first := map[delivery.StreamKey]int64{}
	var key delivery.StreamKey
	var sequence int64
	if _, err := pgx.ForEachRow(rows, []any{&key.Partition, &key.Stream, &sequence}, func() error {
		first[key] = sequence
		return nil
	}); err != nil {
		return nil, fmt.Errorf("look at parked rows: %w", err)
	}
	return first, nil
}
