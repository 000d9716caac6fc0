package gaps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// Repair chooses the gaps to mend.
type Repair struct {
	Options
	// Actor names the operator, Reason the cause; both are required, at most 200 and 2000 characters.
	Actor, Reason string
	// DryRun finds the gaps to queue and changes nothing.
	DryRun bool
	// Confirm is asked before anything is queued; its error ends the repair. nil: nobody.
	Confirm func(found []Gap) error
}

// Repaired is a Repair's result.
type Repaired struct {
	// Report has all gaps found.
	Report *Report
	// Queued are the gaps that were queued, or would be in a dry run; Gone counts those that had a pointer or a history row at the second
	// look.
	Queued []Gap
	Gone   int64
	// Left counts the gaps that are left to the next repair: one takes at most 100,000 of one kind.
	Left int64
}

// ErrNoStream means that Repair got no stream: an unrecorded event may lie there.
var ErrNoStream = errors.New("nothing is repaired without a look at the stream")

// mendable kinds can be queued; mended are queued by default.
var (
	mendable = []GapKind{NeverEnqueued, NotInStream}
	mended   = []GapKind{NeverEnqueued}
)

// Repair looks for gaps and queues the events that can be queued without a doubt; missing messages of the stream only where Kinds names
// NotInStream.
func (s *Store) Repair(ctx context.Context, r Repair, stream Stream) (Repaired, error) {
	var done Repaired
	if stream == nil {
		return done, ErrNoStream
	}
	if len(r.Kinds) == 0 {
		r.Kinds = mended
	}
	for _, k := range r.Kinds {
		if !slices.Contains(mendable, k) {
			return done, maintenance.Refuse("kind", "%s cannot be repaired by a program; %v can", k, mendable)
		}
	}
	if err := maintenance.CheckWords(r.Actor, r.Reason, !r.DryRun); err != nil {
		return done, err
	}
	wanted := r.Kinds
	if slices.Contains(wanted, NeverEnqueued) { // to tell them from those that the stream holds
		r.Kinds = append(slices.Clone(wanted), Unrecorded)
	}
	r.Limit = cmp.Or(r.Limit, repairLimit)
	var err error
	if done.Report, err = s.Detect(ctx, r.Options, stream); err != nil {
		return done, err
	}
	var todo []Gap
	for _, g := range done.Report.Gaps {
		if slices.Contains(wanted, g.Kind) {
			todo = append(todo, g)
		}
	}
	done.Left = done.Report.left(wanted)
	if r.DryRun {
		done.Queued = todo
		return done, nil
	}
	if r.Confirm != nil && len(todo) > 0 {
		if err := r.Confirm(todo); err != nil {
			return done, err
		}
	}
	// The first chunk may be published before the next is queued.
	slices.SortFunc(todo, func(a, b Gap) int { return cmp.Compare(a.Sequence, b.Sequence) })
	for len(todo) > 0 {
		chunk := todo[:min(repairChunk, len(todo))]
		queued, err := s.queue(ctx, r, chunk, done.Report.recent)
		if err != nil {
			return done, fmt.Errorf("queue events: %w", err)
		}
		done.Queued, done.Gone = append(done.Queued, queued...), done.Gone+int64(len(chunk)-len(queued))
		todo = todo[len(chunk):]
	}
	return done, nil
}

// repairChunk bounds the events that one transaction queues.
const repairChunk = 500

// repairLimit bounds the gaps of one kind that one repair takes.
const repairLimit = 100_000

// errResized undoes a repair that found another number of partitions half-way.
var errResized = errors.New("the partitions were resized meanwhile; look again")

// queue inserts pointers for the remaining gaps.
func (s *Store) queue(ctx context.Context, r Repair, chunk []Gap, recent time.Time) (queued []Gap, err error) {
	err = s.outbox.Write(ctx, func(tx pgx.Tx) error {
		if err := s.outbox.LockTable(ctx, tx); err != nil {
			return err
		}
		all, err := s.outbox.Partitions(ctx, tx)
		if err != nil {
			return err
		}
		count := partition.Count(len(all))
		ids := make([]partition.ID, len(chunk))
		for i, g := range chunk {
			ids[i] = partition.Of(g.key, count)
		}
		if err := s.outbox.LockPartitions(ctx, tx, ids); err != nil {
			return err
		}
		still, err := s.still(ctx, tx, chunk, all, recent)
		if err != nil {
			return err
		}
		var in []partition.ID
		var sequences []int64
		var generations []int32
		for i, g := range chunk {
			generation, ok := still[g.Sequence]
			if !ok {
				continue
			}
			g.Partition, g.Generation = ids[i], generation
			queued = append(queued, g)
			in, sequences, generations = append(in, ids[i]), append(sequences, g.Sequence), append(generations, int32(generation))
		}
		if len(queued) == 0 {
			return nil
		}
		done, err := pg.Collect(ctx, tx, s.sql.Enqueue, pg.Args{
			"partitions": in, "sequences": sequences, "generations": generations, "count": int(count),
		}, pgx.RowTo[int64])
		if err != nil {
			return err
		}
		if len(done) != len(queued) {
			return errResized
		}
		return s.record(ctx, tx, r, queued, sequences, in)
	})
	if err != nil {
		return nil, err
	}
	return queued, nil
}

// still returns the remaining gaps, and the generation that their message gets.
func (s *Store) still(ctx context.Context, tx pgx.Tx, chunk []Gap, all []partition.ID, recent time.Time) (map[int64]int, error) {
	never, lost := []int64{}, []int64{}
	for _, g := range chunk {
		if g.Kind == NeverEnqueued {
			never = append(never, g.Sequence)
		} else {
			lost = append(lost, g.Sequence)
		}
	}
	still := map[int64]int{}
	g := Gap{}
	if len(never) > 0 { // a worker may not read operators' actions
		rows, err := s.sql.Suspects.Rows(ctx, tx, pg.Args{"sequences": never, "partitions": all, "recent": recent})
		if err != nil {
			return nil, err
		}
		if _, err := pgx.ForEachRow(rows, []any{&g.Sequence, &g.Stream, &g.EventID, &g.Version, &g.key}, func() error {
			still[g.Sequence] = 0
			return nil
		}); err != nil {
			return nil, err
		}
	}
	found := map[int64]Gap{}
	for _, l := range chunk {
		found[l.Sequence] = l
	}
	rows, err := s.sql.Deliveries.Rows(ctx, tx, pg.Args{"sequences": lost, "partitions": all})
	if err != nil {
		return nil, err
	}
	var waits bool
	var positions []*int64
	var at pgtype.Timestamptz
	_, err = pgx.ForEachRow(rows, []any{&g.Sequence, &g.Stream, &g.EventID, &g.Version, &g.key, &waits, &positions, &g.Generation, &at}, func() error {
		was := found[g.Sequence]
		if again := at.Time.After(was.at) || latest(positions) != was.Position; !waits && !again {
			still[g.Sequence] = g.Generation + 1
		}
		return nil
	})
	return still, err
}

// record writes the audit.
func (s *Store) record(ctx context.Context, tx pgx.Tx, r Repair, queued []Gap, sequences []int64, ids []partition.ID) error {
	kinds := map[GapKind]int{}
	for _, g := range queued {
		kinds[g.Kind]++
	}
	in := slices.Compact(slices.Sorted(slices.Values(ids)))
	return s.outbox.Record(ctx, tx, r.Actor, "gaps.repair", struct {
		Sequences  []int64        `json:"sequences"`
		Partitions []partition.ID `json:"partitions"`
	}{sequences, in}, r.Reason, struct {
		Count int             `json:"count"`
		Kinds map[GapKind]int `json:"kinds"`
	}{len(queued), kinds})
}
