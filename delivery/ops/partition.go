package ops

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// PartitionStory sums up a partition's rows.
type PartitionStory struct {
	// Heads are its first messages that failed or died, by sequence, up to the limit.
	Heads []Head
	// Batches are its last deliveries, the highest sequences first.
	Batches []DeliveredBatch
}

// Head is a message that failed or died, for which its stream may wait.
type Head struct {
	Stream   string
	Sequence int64
	// State is Failed or Dead.
	State    State
	Attempts int
	// AvailableAt is the time of the next attempt; nil: none.
	AvailableAt *time.Time
	DeadAt      *time.Time
	LastError   string
	// Behind counts the parked messages of the stream behind it, up to MaxBehind. It leaves out later ones that no worker has looked at
	// yet.
	Behind int64
}

// DeliveredBatch is one delivery of a partition's messages.
type DeliveredBatch struct {
	ID            int64
	Epoch         int64
	First, Last   int64
	PublishedAt   time.Time
	Published     int
	Skipped       int
	FirstInStream *int64
	LastInStream  *int64
}

// Partition returns a partition's obstacles and its last deliveries, at most limit of each, 1 to MaxLimit, 0: 100. One that has no rows,
// or does not exist, has an empty story.
func (o *Operator) Partition(ctx context.Context, id partition.ID, limit int) (PartitionStory, error) {
	p := Page{Limit: limit}
	if err := p.validate(); err != nil {
		return PartitionStory{}, err
	}
	p = p.withDefaults()
	var story PartitionStory
	err := o.outbox.Read(ctx, func(tx pgx.Tx) (err error) {
		args := pg.Args{"partition": id, "limit": p.Limit, "behind": MaxBehind}
		if story.Heads, err = pg.Collect(ctx, tx, o.sql.Heads, args, pgx.RowToStructByPos[Head]); err != nil {
			return err
		}
		story.Batches, err = pg.Collect(ctx, tx, o.sql.Batches, pg.Args{"partition": id, "limit": p.Limit}, func(row pgx.CollectableRow) (DeliveredBatch, error) {
			var b DeliveredBatch
			err := row.Scan(&b.ID, &b.Epoch, &b.First, &b.Last, &b.FirstInStream, &b.LastInStream, &b.PublishedAt, &b.Published, &b.Skipped)
			return b, err
		})
		return err
	})
	if err != nil {
		return PartitionStory{}, fmt.Errorf("read partition: %w", err)
	}
	return story, nil
}
