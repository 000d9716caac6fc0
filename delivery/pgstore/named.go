package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

const (
	// headsRead is about how many rows are looked at for the oldest ones of each name, over all partitions.
	headsRead = 4096
	// deadTyped is the most dead messages whose types are looked up; the others count as OtherName.
	deadTyped = 10_000
)

// Share sums up the outbox's messages of one label.
type Share struct {
	Dead int64
	// Oldest is the longest wait so far of the pending messages that were read; 0 without one.
	Oldest time.Duration
	// Unknown: there was none, and not all were read.
	Unknown bool
}

// Named sums up the outbox by topic and by type. A label that was told apart once is there for good. ByType is nil where the
// events could not be read.
type Named struct{ ByTopic, ByType map[string]Share }

// head is a message that can be published, at the front of its partition.
type head struct {
	sequence int64
	topic    string
	waited   time.Duration
}

type namedRows struct {
	topics    map[string]int64 // dead messages, of some topics
	dead      int64            // of all
	someDead  []int64
	heads     []head
	cut       bool // there may be more than heads
	typesRead map[int64]string
}

// Named counts the dead by topic and by type and looks for the oldest pending ones among the first of each partition, from start on, as
// Oldest does. Its cost is bounded: it reads the parked rows once, and some thousand others. Types are those of the first 10,000 dead.
// topics and types say which are told apart, and keep the new ones: those with most dead first, then those that wait longest.
func (s *Store) Named(ctx context.Context, start map[partition.ID]int64, topics, types *delivery.Names) (Named, error) {
	rows, err := s.readNamed(ctx, start, topics.Kept())
	if err != nil {
		return Named{}, fmt.Errorf("dead and oldest by name: %w", err)
	}
	n := Named{ByTopic: rows.shares(topics, rows.topics, func(h head) string { return h.topic })}
	if rows.typesRead != nil {
		dead := map[string]int64{}
		for _, sequence := range rows.someDead {
			if kind, ok := rows.typesRead[sequence]; ok {
				dead[kind]++
			}
		}
		n.ByType = rows.shares(types, dead, func(h head) string { return rows.typesRead[h.sequence] })
	}
	return n, nil
}

func (s *Store) readNamed(ctx context.Context, start map[partition.ID]int64, topics []string) (namedRows, error) {
	ids, from := make([]partition.ID, 0, len(start)), make([]int64, 0, len(start))
	for id, sequence := range start {
		ids, from = append(ids, id), append(from, sequence)
	}
	each := 4
	if len(start) > 0 {
		each = max(each, headsRead/len(start))
	}
	rows := namedRows{topics: map[string]int64{}}
	batch := &pgx.Batch{}
	s.sql.Counting.Queue(batch, nil)
	s.sql.DeadTopics.Queue(batch, pg.Args{"topics": topics, "most": 2 * delivery.NamesKept}).Query(func(found pgx.Rows) error {
		var topic *string
		var count int64
		_, err := pgx.ForEachRow(found, []any{&topic, &count}, func() error {
			if topic == nil {
				rows.dead = count
			} else {
				rows.topics[*topic] = count
			}
			return nil
		})
		return err
	})
	s.sql.DeadSome.Queue(batch, pg.Args{"most": deadTyped}).Query(func(found pgx.Rows) (err error) {
		rows.someDead, err = pgx.CollectRows(found, pgx.RowTo[int64])
		return err
	})
	s.sql.Probing.Queue(batch, nil)
	s.sql.Heads.Queue(batch, pg.Args{"partitions": ids, "start": from, "each": each}).Query(rows.collectHeads(each))
	if err := s.db.SendBatch(ctx, batch).Close(); err != nil {
		return rows, err
	}
	sequences := slices.Clone(rows.someDead)
	for _, h := range rows.heads {
		sequences = append(sequences, h.sequence)
	}
	typed := map[int64]string{}
	_, err := readBehind(ctx, s.db, s.sql.Planning, s.sql.EventTypes, pg.Args{"sequences": sequences}, func(row pgx.CollectableRow) (sequence int64, err error) {
		var kind string
		err = row.Scan(&sequence, &kind)
		typed[sequence] = kind
		return sequence, err
	})
	switch {
	case ctx.Err() != nil:
		return rows, err
	case err == nil:
		rows.typesRead = typed
	}
	return rows, nil // without the types where the role may not read them
}

func (n *namedRows) collectHeads(each int) func(pgx.Rows) error {
	return func(found pgx.Rows) error {
		var id partition.ID
		var h head
		var parked bool
		count := map[partition.ID]int{}
		_, err := pgx.ForEachRow(found, []any{&id, &h.sequence, &h.topic, &parked, &h.waited}, func() error {
			if !parked {
				count[id]++
			}
			n.cut = n.cut || count[id] >= each
			h.waited = max(h.waited, time.Microsecond)
			n.heads = append(n.heads, h)
			return nil
		})
		return err
	}
}

// shares sorts by label what was found.
func (n *namedRows) shares(names *delivery.Names, dead map[string]int64, of func(head) string) map[string]Share {
	oldest := map[string]time.Duration{}
	for _, h := range n.heads {
		oldest[of(h)] = max(oldest[of(h)], h.waited)
	}
	found := maps.Clone(oldest)
	for name := range dead {
		found[name] += 0
	}
	order := slices.SortedFunc(maps.Keys(found), func(a, b string) int {
		return cmp.Or(cmp.Compare(dead[b], dead[a]), cmp.Compare(oldest[b], oldest[a]), cmp.Compare(a, b))
	})
	shares := map[string]Share{}
	told := int64(0)
	for _, name := range order {
		label := names.Label(name)
		share := shares[label]
		share.Oldest = max(share.Oldest, oldest[name])
		if label != delivery.OtherName {
			share.Dead = dead[name]
			told += share.Dead
		}
		shares[label] = share
	}
	for _, label := range append(names.Kept(), delivery.OtherName) {
		share := shares[label]
		share.Unknown = n.cut && share.Oldest == 0
		shares[label] = share
	}
	other := shares[delivery.OtherName]
	other.Dead = max(0, n.dead-told)
	shares[delivery.OtherName] = other
	return shares
}
