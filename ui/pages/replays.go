package pages

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/postrider/postrider/delivery/ops/replay"
	"github.com/postrider/postrider/ui/act"
	"github.com/postrider/postrider/ui/source"
	"github.com/postrider/postrider/web"
)

// replayParams are the fields of the replay form.
var replayParams = []string{
	"kind", paramStream, paramTopic, paramType, paramTenant, paramSince, paramUntil, "from_sequence", "to_sequence", paramAll, "rate",
}

// replaysEvery is the interval of updates while a replay is under way, in seconds.
const replaysEvery = 2

// replays serves the list of replays; the address may prefill the form.
func (p *Pages) replays(w http.ResponseWriter, r *http.Request) error {
	return p.listReplays(w, r, http.StatusOK, "")
}

func (p *Pages) listReplays(w http.ResponseWriter, r *http.Request, status int, problem string) error {
	q := r.URL.Query()
	before, err := act.Number(q, paramAfter)
	if err != nil {
		return err
	}
	jobs, err := p.desk.ListReplays(r.Context(), before, pageRows+1)
	if err != nil {
		return err
	}
	now := p.desk.Now(r.Context())
	page := web.Replays{Shell: p.shellOf(r, "Replays", sectionReplays), Problem: problem, Given: map[string]string{}}
	if before > 0 {
		page.Newest = "replays"
	} else if problem == "" { // this address would count again, or takes no GET
		page.Every = listEvery
	}
	if page.MayAct {
		_, why := p.desk.MayReplay(act.Who(r))
		if page.MayReplay = why == nil; why != nil {
			page.Why = p.desk.Complain(r.Context(), why).Message
		}
	}
	for _, name := range replayParams {
		page.Given[name] = q.Get(name)
	}
	page.Given["rate"] = cmp.Or(page.Given["rate"], number(act.DefaultRate))
	if len(jobs) > pageRows {
		jobs = jobs[:pageRows]
		page.Older = "replays?after=" + number(jobs[pageRows-1].ID)
	}
	for _, j := range jobs {
		row := replayRow(j, now)
		if row.Stoppable && page.Every > 0 {
			page.Every = replaysEvery
		}
		page.Rows = append(page.Rows, row)
	}
	return p.send(w, r, status, "replays", page)
}

func replayRow(j replay.Job, now time.Time) web.Replay {
	j.LastError, j.WaitingFor = source.Scrub(j.LastError), source.Scrub(j.WaitingFor)
	row := web.Replay{
		ID: j.ID, Kind: kindInWords(j.Kind), Selection: j.Selection.String(), State: string(j.State), Note: j.WaitingFor,
		Dealt: j.Replayed + j.Gone + j.Failed, Failed: j.Failed, Gone: j.Gone, Generation: j.Generation, Actor: j.Actor, Reason: j.Reason,
		Created: web.Moment{At: j.CreatedAt, Now: now}, Stoppable: !j.Ended(),
	}
	if j.Destination == replay.Shadow {
		row.To = j.Prefix + ".>"
	}
	if j.FinishedAt != nil {
		row.Finished = web.Moment{At: *j.FinishedAt, Now: now}
	}
	if j.Selected != nil {
		row.Counted, row.Selected = true, *j.Selected
		row.Percent = 100
		if row.Selected > 0 {
			row.Percent = int(min(100, 100*row.Dealt/row.Selected))
		}
	}
	if j.Rate > 0 {
		row.Rate = web.Rate(j.Rate)
	}
	resume := fmt.Sprintf("Go on with: postrider replay resume %d", j.ID)
	switch {
	case j.Waits():
		row.State, row.Note = "waiting", cmp.Or(j.LastError, "for its turn, or for a worker that serves a monitor")
	case j.Abandoned():
		row.State, row.Note = "interrupted", resume
	case j.State == replay.Planned, j.State == replay.Paused:
		row.Note = resume
	case j.State == replay.Cancelled && j.Expected != nil && row.Counted && *j.Expected != row.Selected:
		row.Note = fmt.Sprintf("%s were selected, not %s as was confirmed: nothing was replayed", web.Count(row.Selected), web.Count(*j.Expected))
	case j.Differs() != "":
		row.Note = j.Differs()
	}
	return row
}

func kindInWords(kind replay.JobKind) string {
	switch kind {
	case replay.RebuildCurrent:
		return "The last of each stream"
	case replay.Retry:
		return "What is dead or failed"
	case replay.Range:
	}
	return "Every event"
}

// replayGiven returns the non-empty fields of a form.
func replayGiven(q url.Values) url.Values {
	given := url.Values{}
	for _, name := range append([]string{paramReason}, replayParams...) {
		if text := strings.TrimSpace(q.Get(name)); text != "" {
			given.Set(name, text)
		}
	}
	return given
}

// confirmReplay counts the events of a replay, and asks for confirmation.
func (p *Pages) confirmReplay(w http.ResponseWriter, r *http.Request) error {
	if _, err := p.desk.MayReplay(act.Who(r)); err != nil {
		return err
	}
	return p.askReplay(w, r, replayGiven(r.URL.Query()), http.StatusOK, "")
}

func (p *Pages) askReplay(w http.ResponseWriter, r *http.Request, given url.Values, status int, problem string) error {
	spec, err := act.ReplaySpec(given, p.desk.Now(r.Context()))
	var plan replay.Estimate
	if err == nil {
		plan, err = p.desk.CountReplay(r.Context(), act.Who(r), spec)
	}
	if err != nil {
		return p.unless(w, r, err, func(c act.Complaint) error { return p.listReplays(w, r, c.Status, c.Message) })
	}
	reason := given.Get(paramReason)
	given.Del(paramReason)
	page := web.ReplayConfirm{
		Shell: p.shellOf(r, "Confirm", sectionReplays), Kind: kindInWords(spec.Kind), Selection: spec.Selection.String(), Selected: plan.Selected,
		Waiting: plan.Waiting, Unwanted: plan.Unwanted, Last: plan.Last, Held: plan.Held, Rate: web.Rate(cmp.Or(spec.Rate, act.DefaultRate)),
		Back: "replays?" + given.Encode(), Reason: reason, Problem: problem,
	}
	// The replay takes the counted events: nothing newer, and moments stay fixed.
	given.Set("to_sequence", number(plan.Last))
	for name, at := range map[string]*time.Time{paramSince: spec.Selection.Since, paramUntil: spec.Selection.Until} {
		if at != nil {
			given.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	given.Set(paramCount, number(plan.Selected))
	for _, name := range append([]string{paramCount}, replayParams...) {
		if text := given.Get(name); text != "" {
			page.Fields = append(page.Fields, web.Field{Name: name, Value: text})
		}
	}
	return p.send(w, r, status, "replay-confirm", page)
}

func (p *Pages) cancelReplay(w http.ResponseWriter, r *http.Request) error {
	return p.askCancel(w, r, r.PathValue(paramReplay), http.StatusOK, "", "")
}

const paramReplay = "replay"

func (p *Pages) askCancel(w http.ResponseWriter, r *http.Request, name string, status int, reason, problem string) error {
	_, err := p.desk.MayReplay(act.Who(r))
	var j replay.Job
	if err == nil {
		var id int64
		if id, err = act.ReplayNumber(name); err == nil {
			j, err = p.desk.ShowReplay(r.Context(), id)
		}
	}
	if err != nil {
		return err
	}
	now := p.desk.Now(r.Context())
	page := web.ReplayCancel{Shell: p.shellOf(r, "End a replay", sectionReplays), Replay: replayRow(j, now), Reason: reason, Problem: problem}
	return p.send(w, r, status, "replay-cancel", page)
}

// formReplays makes the confirmed replay, or ends one.
func (p *Pages) formReplays(w http.ResponseWriter, r *http.Request) error {
	q, ok := p.form(w, r)
	if !ok {
		return nil
	}
	if q.Get(paramAction) == "cancel" {
		return p.endReplay(w, r, q)
	}
	given := replayGiven(q)
	if given.Get(paramReason) == "" {
		return p.askReplay(w, r, given, http.StatusBadRequest, "reason: must not be empty: it is for the audit")
	}
	spec, err := act.ReplaySpec(given, p.desk.Now(r.Context()))
	var j replay.Job
	if err == nil {
		expected := flashNumber(q, paramCount)
		j, err = p.desk.Replay(r.Context(), act.Who(r), spec, &expected)
	}
	if err != nil {
		return p.unless(w, r, err, func(c act.Complaint) error { return p.askReplay(w, r, given, c.Status, c.Message) })
	}
	return p.seeOther(w, r, "replays", url.Values{paramDone: {"replay"}, paramCount: {number(j.ID)}})
}

func (p *Pages) endReplay(w http.ResponseWriter, r *http.Request, q url.Values) error {
	id, err := act.ReplayNumber(q.Get(paramReplay))
	if err == nil {
		_, err = p.desk.CancelReplay(r.Context(), act.Who(r), id, q.Get(paramReason))
	}
	if err != nil {
		return p.unless(w, r, err, func(c act.Complaint) error {
			return p.askCancel(w, r, q.Get(paramReplay), c.Status, q.Get(paramReason), c.Message)
		})
	}
	return p.seeOther(w, r, "replays", url.Values{paramDone: {"cancel"}, paramCount: {number(id)}})
}
