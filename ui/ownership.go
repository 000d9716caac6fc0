package ui

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

type ownershipBody struct {
	// Begins is the time of the oldest change that is kept.
	Begins  *time.Time   `json:"begins"`
	Changes []ChangeBody `json:"changes"`
	Next    *int64       `json:"next"`
}

// ChangeBody is the JSON form of a change of ownership, the same in `postrider
// partitions history` and in the API.
type ChangeBody struct {
	ID   int64            `json:"id"`
	At   time.Time        `json:"at"`
	Kind lease.ChangeKind `json:"kind"`
	From *OwnerBody       `json:"from"`
	To   *OwnerBody       `json:"to"`
	// LeaseUntil is when the lease of From ran out, where others took over.
	LeaseUntil *time.Time     `json:"lease_until"`
	Partitions []partition.ID `json:"partitions"`
	// Epochs has one entry per partition, in their order.
	Epochs []int64 `json:"lease_epochs"`
}

// OwnerBody is the JSON form of who has partitions.
type OwnerBody struct {
	ID       uuid.UUID `json:"worker_id"`
	Hostname string    `json:"hostname"`
}

// ChangeBodies is the JSON form of changes.
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
			ID: c.ID, At: c.At.UTC(), Kind: c.Kind, From: owner(c.From), To: owner(c.To), LeaseUntil: utc(c.RanOut),
			Partitions: c.Partitions, Epochs: c.Epochs,
		})
	}
	return bodies
}

// ownershipParameters are the names in the query string of a list of changes.
var ownershipParameters = []string{paramPartition, paramSince, paramUntil, paramAfter, paramLimit}

const paramLimit = "limit"

// ownershipQuery reads which changes a list shall show.
func ownershipQuery(values url.Values, now time.Time) (q lease.HistoryQuery, err error) {
	if text := strings.TrimSpace(values.Get(paramPartition)); text != "" {
		id, err := partitionNumber(text)
		if err != nil {
			return q, err
		}
		q.Partition = &id
	}
	if q.Since, err = momentIn(values, paramSince, now); err != nil {
		return q, err
	}
	if q.Until, err = momentIn(values, paramUntil, now); err != nil {
		return q, err
	}
	q.Before, q.Limit, err = paging(values)
	return q, err
}

func (h *Handler) ownership(w http.ResponseWriter, r *http.Request) {
	values, err := parameters(r, ownershipParameters, nil)
	if err != nil {
		h.failBy(w, r, err, 0)
		return
	}
	q, err := ownershipQuery(values, time.Now())
	if err != nil {
		h.failBy(w, r, err, 0)
		return
	}
	history, next, err := h.ownershipPage(r.Context(), q)
	if err != nil {
		h.failBy(w, r, err, 0)
		return
	}
	writeJSON(w, http.StatusOK, ownershipBody{Begins: utc(orNull(history.Begins)), Changes: ChangeBodies(history.Changes), Next: orNull(next)})
}

// ownershipPage reads one page, and where the next one begins; 0: nowhere.
func (h *Handler) ownershipPage(ctx context.Context, q lease.HistoryQuery) (history lease.History, next int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	limit := q.Limit
	q.Limit++ // one more tells whether there is a next page
	if history, err = h.cache.Ownership(ctx, q); err != nil {
		return history, 0, err
	}
	if len(history.Changes) > limit {
		history.Changes = history.Changes[:limit]
		next = history.Changes[limit-1].ID
	}
	return history, next, nil
}

// ownershipTimeout bounds the reading of what stands beside other things.
const ownershipTimeout = 2 * time.Second

var errNotAsked = errors.New("the database does not answer")

// ownershipOf reads changes to be shown beside a snapshot, which is worth showing
// without them: nobody waits for a database that did not give a newer one.
func (h *Handler) ownershipOf(ctx context.Context, seen Observation, q lease.HistoryQuery) (lease.History, error) {
	if seen.Err != nil {
		return lease.History{}, errNotAsked
	}
	limited, cancel := context.WithTimeout(ctx, ownershipTimeout)
	defer cancel()
	history, err := h.cache.Ownership(limited, q)
	if err != nil && ctx.Err() == nil {
		h.options.Logger.WarnContext(ctx, "monitor cannot read who had which partition", logError, scrub(err.Error()))
	}
	return history, err
}
