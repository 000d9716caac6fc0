package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/ui/act"
	"github.com/postrider/postrider/ui/source"
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

// storyBody is one partition's story. Fields that need an operator are null without one.
type storyBody struct {
	freshness
	source.PartitionBody
	OwnerHostname *string     `json:"owner_hostname"`
	Streams       []headBody  `json:"blocked_streams"`
	Deliveries    []batchBody `json:"deliveries"`
	// Ownership is null where it could not be read.
	Ownership []source.ChangeBody `json:"ownership"`
}

// headBody is a failed or dead message, with the number of messages it blocks.
type headBody struct {
	Stream      string     `json:"stream_id"`
	Sequence    int64      `json:"global_sequence"`
	State       ops.State  `json:"state"`
	Attempts    int        `json:"attempts"`
	AvailableAt *time.Time `json:"available_at"`
	DeadAt      *time.Time `json:"dead_at"`
	LastError   *string    `json:"last_error"`
	Behind      int64      `json:"behind"`
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

func (a *API) audit(_ http.ResponseWriter, r *http.Request) (any, error) {
	after, limit, err := paging(r)
	if err != nil {
		return nil, err
	}
	page, err := act.Look(a.desk, r, func(ctx context.Context, op *ops.Operator) (ops.AuditPage, error) {
		return op.Audit(ctx, after, limit)
	})
	if err != nil {
		return nil, err
	}
	body := auditBody{Entries: []auditEntry{}, Next: source.OrNull(page.Next)}
	for _, e := range page.Entries {
		body.Entries = append(body.Entries, auditEntry{
			ID: e.ID, At: e.At.UTC(), Actor: e.Actor, Action: e.Action, Reason: source.OrNull(e.Reason), Target: e.Target, Details: e.Details,
		})
	}
	return body, nil
}

const storyLength = 20

func (a *API) partition(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := act.PartitionNumber(r.PathValue("partition"))
	if err != nil {
		return nil, err
	}
	seen, err := a.present(r)
	if err != nil {
		return nil, err
	}
	for _, p := range seen.Partitions {
		if p.Number != int(id) {
			continue
		}
		body := storyBody{freshness: newFreshness(seen), PartitionBody: seen.PartitionBody(p)}
		for _, worker := range seen.Workers {
			if p.Owned() && worker.ID == p.Owner {
				body.OwnerHostname = &worker.Hostname
			}
		}
		if history, err := a.desk.Cache.OwnershipBeside(r.Context(), seen, lease.HistoryQuery{Partition: &id, Limit: storyLength}, a.desk.Logger); err == nil {
			body.Ownership = source.ChangeBodies(history.Changes)
		}
		if a.desk.Means().Operator != nil {
			story, err := act.Look(a.desk, r, func(ctx context.Context, op *ops.Operator) (ops.PartitionStory, error) {
				return op.Partition(ctx, id, storyLength)
			})
			if err != nil {
				return nil, err
			}
			body.Streams, body.Deliveries = newHeadBodies(story.Heads), newBatchBodies(story.Batches)
		}
		return body, nil
	}
	return nil, &ops.InputError{Field: ops.FieldPartition, Problem: "there is no such partition", Err: ops.ErrNotFound}
}

func newHeadBodies(heads []ops.Head) []headBody {
	bodies := make([]headBody, 0, len(heads))
	for _, one := range heads {
		bodies = append(bodies, headBody{
			Stream: one.Stream, Sequence: one.Sequence, State: one.State, Attempts: one.Attempts,
			AvailableAt: source.UTC(one.AvailableAt), DeadAt: source.UTC(one.DeadAt), LastError: source.OrNull(one.LastError), Behind: one.Behind,
		})
	}
	return bodies
}

func newBatchBodies(batches []ops.DeliveredBatch) []batchBody {
	bodies := make([]batchBody, 0, len(batches))
	for _, b := range batches {
		bodies = append(bodies, batchBody{
			ID: b.ID, Epoch: b.Epoch, First: b.First, Last: b.Last, FirstInStream: b.FirstInStream, LastInStream: b.LastInStream,
			PublishedAt: b.PublishedAt.UTC(), Published: b.Published, Skipped: b.Skipped,
		})
	}
	return bodies
}
