package pages

import (
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/ui/act"
	"github.com/postrider/postrider/web"
)

// drain asks before a worker is drained.
func (p *Pages) drain(w http.ResponseWriter, r *http.Request) error {
	if _, err := p.desk.MayAct(act.Who(r)); err != nil {
		return err
	}
	id, err := workerNamed(r.PathValue(paramWorker))
	if err != nil {
		return err
	}
	return p.askDrain(w, r, id, http.StatusOK, "", "")
}

func workerNamed(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || id == uuid.Nil {
		return uuid.Nil, act.Refused(ops.FieldWorker, "must be a worker's UUID, got %q", text)
	}
	return id, nil
}

func (p *Pages) askDrain(w http.ResponseWriter, r *http.Request, id uuid.UUID, status int, reason, problem string) error {
	// The drain may have become impossible meanwhile.
	result, err := p.desk.OnWorker(r.Context(), act.Who(r), act.Drain, ops.DrainCommand{Worker: id, DryRun: true})
	page := web.Drain{Shell: p.shellOf(r, "Drain a worker", sectionMonitor), Others: result.Others, Reason: reason, Problem: problem}
	page.ID, page.Short = id.String(), shortID(id)
	if err != nil {
		c := p.desk.Complain(r.Context(), err)
		if c.Status >= http.StatusInternalServerError {
			p.Fail(w, r, c.Status, c.Message)
			return nil
		}
		status, page.Problem, page.Gone = c.Status, c.Message, true
	}
	if err == nil && !result.Requested {
		page.Problem, page.Gone = "It had been asked to drain before, or drains already.", true
	}
	if seen, err := p.desk.Cache.Observe(r.Context()); err == nil {
		hues := ownerHues(seen.Snapshot)
		for _, worker := range seen.Workers {
			if worker.ID == id {
				page.Worker = workerRow(worker, seen.At, hues[id.String()])
			}
		}
	}
	return p.send(w, r, status, "drain", page)
}

func (p *Pages) formWorkers(w http.ResponseWriter, r *http.Request) error {
	q, ok := p.form(w, r)
	if !ok {
		return nil
	}
	id, err := workerNamed(q.Get(paramWorker))
	if err != nil {
		return err
	}
	if q.Get(paramAction) == act.Undrain.Name {
		if _, err := p.desk.OnWorker(r.Context(), act.Who(r), act.Undrain, ops.DrainCommand{Worker: id}); err != nil {
			return err
		}
		p.desk.Cache.Outdate()
		return p.seeOther(w, r, "", url.Values{paramDone: {act.Undrain.Name}})
	}
	reason := q.Get(paramReason)
	result, err := p.desk.OnWorker(r.Context(), act.Who(r), act.Drain, ops.DrainCommand{Worker: id, Reason: reason})
	if err != nil {
		return p.unless(w, r, err, func(c act.Complaint) error { return p.askDrain(w, r, id, c.Status, reason, c.Message) })
	}
	done := "drain"
	if !result.Requested {
		done = "drained"
	}
	p.desk.Cache.Outdate()
	return p.seeOther(w, r, "", url.Values{paramDone: {done}})
}
