package pages

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui/act"
	"github.com/postrider/postrider/ui/source"
	"github.com/postrider/postrider/web"
)

// Names of the parameters of actions on partitions and workers.
const (
	paramAction = "action"
	paramWorker = "worker"
)

const storyLength = 20

func (p *Pages) story(w http.ResponseWriter, r *http.Request) error {
	id, err := act.PartitionNumber(r.PathValue("partition"))
	if err != nil {
		return err
	}
	return p.tellStory(w, r, id, http.StatusOK, "", "")
}

// seenPartition returns the partition's page as the newest snapshot has it.
func (p *Pages) seenPartition(ctx context.Context, id partition.ID) (page web.Story, seen source.Observation, err error) {
	if seen, err = p.desk.Cache.Observe(ctx); err != nil {
		return page, seen, errUnread
	}
	page, found := storyPage(seen, int(id))
	if !found {
		err = &ops.InputError{Field: ops.FieldPartition, Problem: "there is no such partition", Err: ops.ErrNotFound}
	}
	return page, seen, err
}

// tellStory shows the page, with the problem of a refused action.
func (p *Pages) tellStory(w http.ResponseWriter, r *http.Request, id partition.ID, status int, reason, problem string) error {
	page, seen, err := p.seenPartition(r.Context(), id)
	if err != nil {
		return err
	}
	page.Shell = p.shellOf(r, "Partition "+number(int64(id)), sectionMonitor)
	page.Ownership = p.besideSnapshot(r, seen, &id, storyLength)
	page.Reason, page.Problem = reason, problem
	if problem == "" {
		page.Every = 1
	}
	if p.desk.Means().Operator != nil {
		story, err := act.Look(p.desk, r, func(ctx context.Context, op *ops.Operator) (ops.PartitionStory, error) {
			return op.Partition(ctx, id, storyLength)
		})
		if err != nil {
			return err
		}
		fillStory(&page, story, seen.At.Add(seen.Age))
	}
	return p.send(w, r, status, "story", page)
}

func (p *Pages) confirmPause(w http.ResponseWriter, r *http.Request) error {
	if _, err := p.desk.MayAct(act.Who(r)); err != nil {
		return err
	}
	id, err := act.PartitionNumber(r.PathValue("partition"))
	if err != nil {
		return err
	}
	return p.askPause(w, r, id, http.StatusOK, "", "")
}

func (p *Pages) askPause(w http.ResponseWriter, r *http.Request, id partition.ID, status int, reason, problem string) error {
	page, _, err := p.seenPartition(r.Context(), id)
	if err != nil {
		return err
	}
	page.Shell, page.Reason, page.Problem = p.shellOf(r, "Pause a partition", sectionMonitor), reason, problem
	return p.send(w, r, status, "pause-confirm", page)
}

func storyPage(seen source.Observation, n int) (web.Story, bool) {
	hues := ownerHues(seen.Snapshot)
	for i, p := range seen.Partitions {
		if p.Number != n {
			continue
		}
		host := ""
		for _, worker := range seen.Workers {
			if worker.ID == p.Owner {
				host = worker.Hostname
			}
		}
		page := web.Story{
			Partition: partitionCell(seen.Snapshot, p, hues[p.Owner.String()], host), At: seen.At, Age: seen.Age, Trouble: seen.Trouble(),
			PausedSince: moment(p.PausedAt, seen.At), Watermark: seen.Watermark.String(), Previous: -1, Next: -1,
		}
		if page.Owned {
			page.Until = web.Moment{At: p.LeaseUntil, Now: seen.At}
		}
		if i > 0 {
			page.Previous = seen.Partitions[i-1].Number
		}
		if i+1 < len(seen.Partitions) {
			page.Next = seen.Partitions[i+1].Number
		}
		return page, true
	}
	return web.Story{}, false
}

func fillStory(page *web.Story, story ops.PartitionStory, now time.Time) {
	page.Told = true
	for _, one := range story.Heads {
		page.Heads = append(page.Heads, web.Head{
			Sequence: one.Sequence, Stream: one.Stream, State: string(one.State), Attempts: one.Attempts, Next: moment(one.AvailableAt, now),
			Dead: moment(one.DeadAt, now), Behind: one.Behind, Capped: one.Behind >= ops.MaxBehind, Error: one.LastError,
		})
	}
	for _, b := range story.Batches {
		row := web.Batch{
			First: b.First, Last: b.Last, Epoch: b.Epoch, At: web.Moment{At: b.PublishedAt, Now: now}, Published: b.Published, Skipped: b.Skipped,
		}
		if b.FirstInStream != nil && b.LastInStream != nil {
			row.FirstInStream, row.LastInStream = *b.FirstInStream, *b.LastInStream
		}
		page.Batches = append(page.Batches, row)
	}
}

// formPartitions pauses or resumes one partition.
func (p *Pages) formPartitions(w http.ResponseWriter, r *http.Request) error {
	q, ok := p.form(w, r)
	if !ok {
		return nil
	}
	id, err := act.PartitionNumber(q.Get(paramPartition))
	if err != nil {
		return err
	}
	var action act.PartitionVerb
	switch q.Get(paramAction) {
	case act.Pause.Name:
		action = act.Pause
	case act.Resume.Name:
		action = act.Resume
	default:
		return act.Refused("action", "must be pause or resume, got %q", q.Get(paramAction))
	}
	reason := q.Get(paramReason)
	_, err = p.desk.OnPartitions(r.Context(), act.Who(r), action, ops.PauseCommand{Partitions: []partition.ID{id}, Reason: reason})
	if err != nil {
		return p.unless(w, r, err, func(c act.Complaint) error {
			if action.Name == act.Pause.Name {
				return p.askPause(w, r, id, c.Status, reason, c.Message)
			}
			return p.tellStory(w, r, id, c.Status, reason, c.Message)
		})
	}
	text := number(int64(id))
	p.desk.Cache.Outdate()
	return p.seeOther(w, r, "partitions/"+text, url.Values{paramDone: {action.Name}, paramCount: {text}})
}

// unless shows an error page where sending the form again cannot mend the error, and else calls again.
func (p *Pages) unless(w http.ResponseWriter, r *http.Request, err error, again func(act.Complaint) error) error {
	c := p.desk.Complain(r.Context(), err)
	if c.Status == http.StatusNotFound || c.Status == http.StatusForbidden || c.Status >= http.StatusInternalServerError {
		p.Fail(w, r, c.Status, c.Message)
		return nil
	}
	return again(c)
}
