package delivery

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// Claim is what one round trip found.
type Claim struct {
	Batches []Batch
	// ReadUpTo is a position of the write-ahead log behind everything read.
	ReadUpTo string
}

const insertPosition = `SELECT pg_current_wal_insert_lsn()::text`

// Claim reads the next undelivered rows of the leases' partitions: at most
// perPartition of each and at most total, the first leases first. It writes
// nothing; the lease is what keeps others away.
//
// Parked rows are read before ready ones: a row that shows in the earlier
// snapshot has its predecessors in the later one.
func (s *Store) Claim(ctx context.Context, leases []*lease.Lease, perPartition, total int) (Claim, error) {
	ids := make([]partition.ID, len(leases))
	byID := make(map[partition.ID]*lease.Lease, len(leases))
	for i, l := range leases {
		ids[i], byID[l.Partition] = l.Partition, l
	}
	var parked, ready []row
	var c Claim
	batch := &pgx.Batch{}
	batch.Queue(planning)
	batch.Queue(s.claimParked, ids, perPartition, total).Query(collectClaimed(&parked, true))
	batch.Queue(s.claimReady, ids, perPartition, total).Query(collectClaimed(&ready, false))
	batch.Queue(insertPosition).QueryRow(func(row pgx.Row) error { return row.Scan(&c.ReadUpTo) })
	if err := s.db.SendBatch(ctx, batch).Close(); err != nil {
		return Claim{}, fmt.Errorf("claim: %w", err)
	}
	room := total
	joined := join(dueOnly(parked), ready, perPartition, len(ready) >= total)
	for _, id := range ids { // the first leases first
		rows := joined[id]
		take := min(len(rows), perPartition, room)
		if take == 0 {
			continue
		}
		room -= take
		b := Batch{Lease: byID[id], More: take < len(rows) || take >= perPartition || len(ready) >= total || len(parked) >= total}
		for _, r := range rows[:take] {
			b.Messages = append(b.Messages, Message{Pointer: r.Pointer})
		}
		c.Batches = append(c.Batches, b)
	}
	slices.SortFunc(c.Batches, func(a, b Batch) int { return cmp.Compare(a.Lease.Partition, b.Lease.Partition) })
	return c, nil
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
func join(parked, ready []row, perPartition int, cut bool) map[partition.ID][]row {
	rows := map[partition.ID][]row{}
	for _, c := range ready {
		rows[c.Partition] = append(rows[c.Partition], c)
	}
	last := map[partition.ID]int64{}
	for id, list := range rows {
		if cut || len(list) >= perPartition {
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
