package ui

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery/admin"
)

type auditBody struct {
	Entries []auditEntry `json:"entries"`
	Next    *int64       `json:"next"`
}

type auditEntry struct {
	ID     int64     `json:"id"`
	At     time.Time `json:"at"`
	Actor  string    `json:"actor"`
	Action string    `json:"action"`
	Reason *string   `json:"reason"`
	// Target and Details are objects whose fields depend on the action.
	Target  json.RawMessage `json:"target"`
	Details json.RawMessage `json:"details"`
}

type rebalancesBody struct {
	// Since is when this process began to watch; null before its first snapshot.
	Since      *time.Time      `json:"since"`
	Rebalances []rebalanceBody `json:"rebalances"`
	Next       *int64          `json:"next"`
}

type rebalanceBody struct {
	ID         int64         `json:"id"`
	After      time.Time     `json:"after"`
	At         time.Time     `json:"at"`
	Kind       RebalanceKind `json:"kind"`
	From       *ownerBody    `json:"from"`
	To         *ownerBody    `json:"to"`
	Partitions []int         `json:"partitions"`
}

type ownerBody struct {
	ID       uuid.UUID `json:"worker_id"`
	Hostname string    `json:"hostname"`
}

// storyBody is one partition's story. What takes an operator is null without
// one.
type storyBody struct {
	freshness
	partitionBody
	OwnerHostname *string         `json:"owner_hostname"`
	Streams       []headBody      `json:"blocked_streams"`
	Deliveries    []batchBody     `json:"deliveries"`
	Rebalances    []rebalanceBody `json:"rebalances"`
}

// headBody is a failed or dead message and how many wait behind it.
type headBody struct {
	Stream      string      `json:"stream_id"`
	Sequence    int64       `json:"global_sequence"`
	State       admin.State `json:"state"`
	Attempts    int         `json:"attempts"`
	AvailableAt *time.Time  `json:"available_at"`
	DeadAt      *time.Time  `json:"dead_at"`
	LastError   *string     `json:"last_error"`
	Behind      int64       `json:"behind"`
}

type batchBody struct {
	ID            int64     `json:"id"`
	Epoch         int64     `json:"lease_epoch"`
	First         int64     `json:"first_sequence"`
	Last          int64     `json:"last_sequence"`
	FirstInStream *int64    `json:"first_stream_sequence"`
	LastInStream  *int64    `json:"last_stream_sequence"`
	PublishedAt   time.Time `json:"published_at"`
	Published     int       `json:"published"`
	Skipped       int       `json:"skipped"`
}

func (h *Handler) audit(w http.ResponseWriter, r *http.Request) {
	values, err := parameters(r, []string{"after", "limit"}, nil)
	if err != nil {
		h.failBy(w, r, err, 0)
		return
	}
	after, limit, err := paging(values)
	if err != nil {
		h.failBy(w, r, err, 0)
		return
	}
	page, err := look(h, r, func(ctx context.Context, op *admin.Operator) (admin.AuditPage, error) {
		return op.Audit(ctx, after, limit)
	})
	if err != nil {
		h.failBy(w, r, err, 0)
		return
	}
	body := auditBody{Entries: []auditEntry{}, Next: orNull(page.Next)}
	for _, e := range page.Entries {
		body.Entries = append(body.Entries, auditEntry{
			ID: e.ID, At: e.At.UTC(), Actor: e.Actor, Action: e.Action, Reason: orNull(e.Reason), Target: e.Target, Details: e.Details,
		})
	}
	writeJSON(w, http.StatusOK, body)
}

func (h *Handler) rebalances(w http.ResponseWriter, r *http.Request) {
	values, err := parameters(r, []string{"after", "limit", "partition"}, nil)
	if err != nil {
		h.failBy(w, r, err, 0)
		return
	}
	after, limit, err := paging(values)
	if err != nil {
		h.failBy(w, r, err, 0)
		return
	}
	only := -1
	if text := values.Get("partition"); text != "" {
		id, err := partitionNumber(text)
		if err != nil {
			h.failBy(w, r, err, 0)
			return
		}
		only = int(id)
	}
	// The log is made of snapshots: without a new one it may miss the last change.
	// While the database is away the old one is still worth telling.
	if _, err := h.cache.Observe(r.Context()); err != nil && r.Context().Err() != nil {
		return
	}
	// One more tells whether there is a next page.
	entries, since := h.cache.Rebalances(after, limit+1, only)
	var next *int64
	if len(entries) > limit {
		entries = entries[:limit]
		next = &entries[limit-1].ID
	}
	body := rebalancesBody{Rebalances: newRebalanceBodies(entries), Next: next, Since: utc(orNull(since))}
	writeJSON(w, http.StatusOK, body)
}

func newRebalanceBodies(entries []Rebalance) []rebalanceBody {
	bodies := make([]rebalanceBody, 0, len(entries))
	owner := func(id uuid.UUID, host string) *ownerBody {
		if id == uuid.Nil {
			return nil
		}
		return &ownerBody{ID: id, Hostname: host}
	}
	for _, e := range entries {
		bodies = append(bodies, rebalanceBody{
			ID: e.ID, After: e.After.UTC(), At: e.At.UTC(), Kind: e.Kind,
			From: owner(e.From, e.FromHost), To: owner(e.To, e.ToHost), Partitions: e.Partitions,
		})
	}
	return bodies
}

// How much a partition's story tells.
const storyLength = 20

// partition tells one partition's story.
func (h *Handler) partition(w http.ResponseWriter, r *http.Request) {
	id, err := partitionNumber(r.PathValue("partition"))
	if err != nil {
		h.failBy(w, r, err, 0)
		return
	}
	seen, ok := h.present(w, r)
	if !ok {
		return
	}
	for _, p := range seen.Partitions {
		if p.Number != int(id) {
			continue
		}
		body := storyBody{freshness: newFreshness(seen), partitionBody: newPartitionBody(seen.Snapshot, p)}
		for _, worker := range seen.Workers {
			if p.Owned() && worker.ID == p.Owner {
				body.OwnerHostname = &worker.Hostname
			}
		}
		entries, _ := h.cache.Rebalances(0, storyLength, p.Number)
		body.Rebalances = newRebalanceBodies(entries)
		if h.options.Operator != nil {
			story, err := look(h, r, func(ctx context.Context, op *admin.Operator) (admin.PartitionStory, error) {
				return op.Partition(ctx, id, storyLength)
			})
			if err != nil {
				h.failBy(w, r, err, 0)
				return
			}
			body.Streams, body.Deliveries = newHeadBodies(story.Heads), newBatchBodies(story.Batches)
		}
		writeJSON(w, http.StatusOK, body)
		return
	}
	h.failBy(w, r, &admin.InputError{Field: admin.FieldPartition, Problem: "there is no such partition", Err: admin.ErrNotFound}, 0)
}

func newHeadBodies(heads []admin.Head) []headBody {
	bodies := make([]headBody, 0, len(heads))
	for _, one := range heads {
		bodies = append(bodies, headBody{
			Stream: one.Stream, Sequence: one.Sequence, State: one.State, Attempts: one.Attempts,
			AvailableAt: utc(one.AvailableAt), DeadAt: utc(one.DeadAt), LastError: orNull(one.LastError), Behind: one.Behind,
		})
	}
	return bodies
}

func newBatchBodies(batches []admin.Batch) []batchBody {
	bodies := make([]batchBody, 0, len(batches))
	for _, b := range batches {
		bodies = append(bodies, batchBody{
			ID: b.ID, Epoch: b.Epoch, First: b.First, Last: b.Last, FirstInStream: b.FirstInStream, LastInStream: b.LastInStream,
			PublishedAt: b.PublishedAt.UTC(), Published: b.Published, Skipped: b.Skipped,
		})
	}
	return bodies
}
