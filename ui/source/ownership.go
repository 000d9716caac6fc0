package source

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// ChangeBody is the JSON form of a change of ownership, the same in `postrider partitions history` and in the API.
type ChangeBody struct {
	ID   int64            `json:"id"`
	At   time.Time        `json:"at"`
	Kind lease.ChangeKind `json:"kind"`
	From *OwnerBody       `json:"from"`
	To   *OwnerBody       `json:"to"`
	// LeaseUntil is the end of From's lease, where others took over.
	LeaseUntil *time.Time     `json:"lease_until"`
	Partitions []partition.ID `json:"partitions"`
	// Epochs has one entry per partition, in their order.
	Epochs []int64 `json:"lease_epochs"`
}

// OwnerBody is the JSON form of an owner.
type OwnerBody struct {
	ID       uuid.UUID `json:"worker_id"`
	Hostname string    `json:"hostname"`
}

// ChangeBodies returns the JSON form of changes.
func ChangeBodies(changes []lease.Change) []ChangeBody {
	bodies := make([]ChangeBody, 0, len(changes))
	owner := func(h lease.Owner) *OwnerBody {
		if h.Nobody() {
			return nil
		}
		return &OwnerBody{ID: h.ID, Hostname: h.Hostname}
	}
	for _, c := range changes {
		bodies = append(bodies, ChangeBody{
			ID: c.ID, At: c.At.UTC(), Kind: c.Kind, From: owner(c.From), To: owner(c.To), LeaseUntil: UTC(c.RanOut),
			Partitions: c.Partitions, Epochs: c.Epochs,
		})
	}
	return bodies
}

// OwnershipPage reads one page, and the position of the next; 0: none.
func (c *Cache) OwnershipPage(ctx context.Context, q lease.HistoryQuery) (history lease.History, next int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	limit := q.Limit
	q.Limit++ // one more reveals a next page
	if history, err = c.Ownership(ctx, q); err != nil {
		return history, 0, err
	}
	if len(history.Changes) > limit {
		history.Changes = history.Changes[:limit]
		next = history.Changes[limit-1].ID
	}
	return history, next, nil
}

// pageTimeout bounds the read of a page, besideTimeout that of a panel beside a snapshot.
const (
	pageTimeout   = 10 * time.Second
	besideTimeout = 2 * time.Second
)

var errNotAsked = errors.New("the database does not answer")

// OwnershipBeside reads changes to show beside a snapshot, which is worth showing without them: nobody waits for a database that gave no
// newer snapshot.
func (c *Cache) OwnershipBeside(ctx context.Context, seen Observation, q lease.HistoryQuery, log *slog.Logger) (lease.History, error) {
	if seen.Err != nil {
		return lease.History{}, errNotAsked
	}
	limited, cancel := context.WithTimeout(ctx, besideTimeout)
	defer cancel()
	history, err := c.Ownership(limited, q)
	if err != nil && ctx.Err() == nil {
		log.WarnContext(ctx, "monitor cannot read who had which partition", logError, Scrub(err.Error()))
	}
	return history, err
}
