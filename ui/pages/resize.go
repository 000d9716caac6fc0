package pages

import (
	"net/http"
	"net/url"

	"github.com/postrider/postrider/ui/act"
	"github.com/postrider/postrider/web"
)

// pathResize leads to the page of the number of partitions, from the root.
const pathResize = "partitions/resize"

// resizeEvery is the interval of updates while the partitions change, in seconds.
const resizeEvery = 1

// resize serves the number of partitions, the progress of its change, and the form for another.
func (p *Pages) resize(w http.ResponseWriter, r *http.Request) error {
	return p.showResize(w, r, http.StatusOK, "", "")
}

func (p *Pages) showResize(w http.ResponseWriter, r *http.Request, status int, given, problem string) error {
	census, last, err := p.desk.Resizing(r.Context())
	if err != nil {
		return err
	}
	now := p.desk.Now(r.Context())
	page := web.Resize{
		Shell: p.shellOf(r, "Number of partitions", sectionMonitor), Partitions: census.Partitions, Since: moment(census.ResizedAt, now),
		Resizing: census.Frozen, Returned: census.Returned, Given: given, Problem: problem,
	}
	if last != nil {
		page.Last = &web.Resized{
			State: last.State(), From: last.From, To: last.To, Moved: last.Moved, Actor: last.Actor, Reason: last.Reason,
			Ended: web.Moment{At: last.EndedAt, Now: now},
		}
		if last.Err != nil {
			page.Last.Error = act.WhyNotResized(last.Err)
		}
		page.Resizing = page.Resizing || last.EndedAt.IsZero()
	}
	switch {
	case problem != "": // this address would count again, or takes no GET
	case page.Resizing:
		page.Every = resizeEvery
	default:
		page.Every = listEvery
	}
	return p.send(w, r, status, "resize", page)
}

// confirmResize shows the effects of another number of partitions, and asks for confirmation.
func (p *Pages) confirmResize(w http.ResponseWriter, r *http.Request) error {
	return p.askResize(w, r, r.URL.Query(), http.StatusOK, "")
}

func (p *Pages) askResize(w http.ResponseWriter, r *http.Request, q url.Values, status int, problem string) error {
	if _, err := p.desk.MayResize(act.Who(r)); err != nil {
		return err
	}
	act.Prolong(w)
	again := func(c act.Complaint) error {
		return p.showResize(w, r, c.Status, q.Get(act.ParamPartitions), c.Message)
	}
	wanted, err := act.ResizeWanted(q)
	if err != nil {
		return p.unless(w, r, err, again)
	}
	wanted.From = 0 // the page shows the present number
	plan, err := p.desk.PlanResize(r.Context(), act.Who(r), wanted)
	if err != nil {
		return p.unless(w, r, err, again)
	}
	page := web.ResizeConfirm{
		Shell: p.shellOf(r, "Confirm", sectionMonitor), From: plan.From, To: plan.To, Moved: plan.Moved, Reason: wanted.Reason, Problem: problem,
	}
	return p.send(w, r, status, "resize-confirm", page)
}

// formResize begins the confirmed resize, and redirects to the page of its progress.
func (p *Pages) formResize(w http.ResponseWriter, r *http.Request) error {
	q, ok := p.form(w, r)
	if !ok {
		return nil
	}
	wanted, err := act.ResizeWanted(q)
	if err == nil {
		_, err = p.desk.Resize(r.Context(), act.Who(r), wanted)
	}
	if err != nil {
		return p.unless(w, r, err, func(c act.Complaint) error { return p.askResize(w, r, q, c.Status, c.Message) })
	}
	p.desk.Cache.Outdate()
	return p.seeOther(w, r, pathResize, url.Values{paramDone: {"resize"}, paramCount: {number(int64(wanted.To))}})
}
