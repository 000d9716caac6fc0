package delivery

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// Ask says what to claim of one partition.
type Ask struct {
	Lease *lease.Lease
	// After is the partition's cursor: ready rows up to it are not looked at.
	After int64
	// Most is the most rows.
	Most int
}

// Limits bound a claim over all partitions.
type Limits struct {
	// Total is the most rows.
	Total int
	// UpTo is the highest sequence that may be claimed: the watermark.
	UpTo int64
}

// unbounded claims whatever is visible, and nowhere is before every sequence.
const (
	unbounded int64 = math.MaxInt64
	nowhere   int64 = math.MinInt64
)

// Claim is what one round trip found.
type Claim struct {
	Batches []Batch
	// readUpTo is a position of the write-ahead log behind everything read, and
	// session is where it was read. After a crash of the server positions say
	// nothing about what an earlier session saw.
	readUpTo string
	session  *pgxpool.Conn
	since    time.Time // when the session began, by the database's clock
}

// Close gives the session back.
func (c *Claim) Close() {
	if c.session != nil {
		c.session.Release()
		c.session = nil
	}
}

// Claim reads the next undelivered rows of the partitions asked for, the first
// ones first. It writes nothing; the lease is what keeps others away. A claim
// that was made without error must be closed.
//
// Parked rows are read before ready ones: a row that shows in the earlier
// snapshot has its predecessors in the later one.
func (s *Store) Claim(ctx context.Context, asks []Ask, limits Limits, policy FailurePolicy) (Claim, error) {
	ids, after, most := make([]partition.ID, len(asks)), make([]int64, len(asks)), make([]int32, len(asks))
	for i, a := range asks {
		ids[i], after[i], most[i] = a.Lease.Partition, a.After, int32(a.Most) //nolint:gosec // at most 10,000
	}
	var parked, ready []row
	var c Claim
	var era int
	batch := &pgx.Batch{}
	batch.Queue(planning)
	if policy.passes() {
		batch.Queue(s.claimDue, ids, most, limits.Total).Query(collectClaimed(&parked, true))
	} else {
		batch.Queue(s.claimParked, ids, most, limits.Total, policy.skipsDead()).Query(collectClaimed(&parked, true))
	}
	batch.Queue(s.claimReady, ids, after, most, limits.Total, limits.UpTo,
		policy.halts(), policy.passes(), policy.skipsDead()).Query(collectClaimed(&ready, false))
	batch.Queue(s.position).QueryRow(func(row pgx.Row) error { return row.Scan(&c.readUpTo, &era, &c.since) })
	session, err := s.db.Acquire(ctx)
	if err != nil {
		return Claim{}, fmt.Errorf("claim: %w", err)
	}
	if err := session.SendBatch(ctx, batch).Close(); err != nil {
		session.Release()
		return Claim{}, fmt.Errorf("claim: %w", err)
	}
	c.session = session
	if !policy.passes() {
		parked = dueOnly(parked)
	}
	c.Batches = share(asks, join(asks, parked, ready, len(ready) >= limits.Total), limits.Total, era,
		len(ready) >= limits.Total || len(parked) >= limits.Total)
	return c, nil
}

// share makes the batches, the first ones asked for first, sorted by partition.
func share(asks []Ask, rows map[partition.ID][]row, room, era int, cut bool) []Batch {
	var batches []Batch
	for _, a := range asks {
		found := rows[a.Lease.Partition]
		take := min(len(found), a.Most, room)
		if take == 0 {
			continue
		}
		room -= take
		b := Batch{Lease: a.Lease, More: take < len(found) || take >= a.Most || cut}
		for _, r := range found[:take] {
			r.Era = era
			b.Messages = append(b.Messages, Message{Pointer: r.Pointer})
		}
		batches = append(batches, b)
	}
	slices.SortFunc(batches, func(a, b Batch) int { return cmp.Compare(a.Lease.Partition, b.Lease.Partition) })
	return batches
}

type row struct {
	Pointer
	due bool
}

func collectClaimed(into *[]row, parked bool) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			c := row{Pointer: Pointer{Parked: parked}}
			if err := rows.Scan(&c.Partition, &c.Sequence, &c.Generation, &c.Attempts, &c.Stream, &c.Topic, &c.Blocked, &c.due); err != nil {
				return err
			}
			c.NotDue = !c.due
			*into = append(*into, c)
		}
		return rows.Err()
	}
}

type streamKey struct {
	partition partition.ID
	stream    string
}

// dueOnly cuts each stream's parked rows, which come in order, at the first one
// that is not due or dead. What remains is blocked by nothing: the stream's
// first parked row leads it.
func dueOnly(parked []row) []row {
	slices.SortFunc(parked, bySequence)
	cut := map[streamKey]bool{}
	return slices.DeleteFunc(parked, func(c row) bool {
		key := streamKey{c.Partition, c.Stream}
		cut[key] = cut[key] || !c.due
		return cut[key]
	})
}

func bySequence(a, b row) int {
	return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Sequence, b.Sequence))
}

// join merges the two claims into one ascending list a partition. When the
// ready rows of a partition may have been cut, a parked row behind the last of
// them waits: a ready row before it could be missing here.
func join(asks []Ask, parked, ready []row, cut bool) map[partition.ID][]row {
	most := make(map[partition.ID]int, len(asks))
	for _, a := range asks {
		most[a.Lease.Partition] = a.Most
	}
	rows := map[partition.ID][]row{}
	for _, c := range ready {
		rows[c.Partition] = append(rows[c.Partition], c)
	}
	last := map[partition.ID]int64{}
	for id, list := range rows {
		if cut || len(list) >= most[id] {
			for _, c := range list {
				last[id] = max(last[id], c.Sequence)
			}
		}
	}
	for _, c := range parked {
		c.Blocked = false
		limit, limited := last[c.Partition]
		if limited && c.Sequence > limit || cut && !limited {
			continue
		}
		rows[c.Partition] = append(rows[c.Partition], c)
	}
	for _, list := range rows {
		slices.SortFunc(list, bySequence)
	}
	return rows
}
