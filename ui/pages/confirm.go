package pages

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/ui/act"
	"github.com/postrider/postrider/web"
)

// Names of the parameters of actions on messages.
const (
	paramSelected = "selected" // the verb, for the named messages
	paramAll      = "all"      // the verb, for all that the filter selects
	paramReason   = "reason"
	paramFrom     = "from"
	paramMore     = "more" // the confirmed count is not complete
	fromMessage   = "message"
	fromCauses    = "causes"
)

// actionsOnMessages are the ways to end a message's wait.
var actionsOnMessages = []act.MessageVerb{act.Requeue, act.Skip, act.Discard}

// needsReason reports whether the audit requires a reason.
func needsReason(a act.MessageVerb) bool { return a.Name != act.Requeue.Name }

// order is a form's request: an action, and the messages in one or two selections, since dead and failed ones are
// two.
type order struct {
	act.MessageVerb
	all        bool
	filter     messageFilter
	selections []ops.Selection
	// fields carry the order through the confirmation.
	fields []web.Field
	from   string
	// changed counts the messages changed before a failure.
	changed int64
}

func readOrder(q url.Values, now time.Time) (order, error) {
	var o order
	name := q.Get(paramSelected)
	if o.all = q.Get(paramAll) != ""; o.all {
		name = q.Get(paramAll)
	}
	i := slices.IndexFunc(actionsOnMessages, func(a act.MessageVerb) bool { return a.Name == name })
	if i < 0 {
		return o, act.Refused("action", "must be requeue, skip or discard, got %q", name)
	}
	o.MessageVerb = actionsOnMessages[i]
	var err error
	if o.filter, err = readFilter(q, now); err != nil {
		return o, err
	}
	for name, at := range map[string]time.Time{paramSince: o.filter.Since, paramUntil: o.filter.Until} {
		if !at.IsZero() { // a person confirms the counted time
			o.filter.given.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	o.fields = append(o.filter.fields(), web.Field{Name: paramSelected, Value: name})
	if o.all {
		o.fields[len(o.fields)-1].Name = paramAll
	}
	if o.from = q.Get(paramFrom); o.from == fromMessage || o.from == fromCauses {
		o.fields = append(o.fields, web.Field{Name: paramFrom, Value: o.from})
	}
	if o.all {
		return o, o.selectAll()
	}
	return o, o.selectNamed(q)
}

func (o *order) selectAll() error {
	state := o.filter.oneState()
	if state == "" {
		return act.Refused(ops.FieldState, "to act on all that match, the filter must name one state, dead or failed")
	}
	s := ops.Selection{State: state, Filter: o.filter.Filter}
	s.Filter.States = nil
	switch {
	case s.Filter.Sequence != 0:
		s = ops.Selection{State: state, Sequences: []int64{s.Filter.Sequence}}
	case s.Filter.Empty():
		s.All = true
	}
	o.selections = []ops.Selection{s}
	return nil
}

func (o *order) selectNamed(q url.Values) error {
	for _, state := range []ops.State{ops.Dead, ops.Failed} {
		s := ops.Selection{State: state}
		for _, text := range q[string(state)] {
			n, err := readSequence(text)
			if err != nil {
				return err
			}
			s.Sequences = append(s.Sequences, n)
			o.fields = append(o.fields, web.Field{Name: string(state), Value: number(n)})
		}
		if len(s.Sequences) > 0 {
			o.selections = append(o.selections, s)
		}
	}
	if len(o.selections) == 0 {
		return act.Refused(ops.FieldSelection, "no message is selected; only dead and failed ones can be")
	}
	return nil
}

// back returns the address to return to, relative to the root, without the action's result.
func (o order) back() string {
	if o.from == fromMessage && len(o.selections) == 1 && len(o.selections[0].Sequences) == 1 {
		return "messages/" + number(o.selections[0].Sequences[0])
	}
	if o.from == fromCauses {
		return "messages/causes"
	}
	return o.filter.query()
}

// Limits of the count on the confirmation page: messages and time.
const (
	countMost   = 10_000
	countWithin = 30 * time.Millisecond
)

// count does the order as a dry run.
func (p *Pages) count(ctx context.Context, who act.Identity, o order) ([]ops.Changed, error) {
	ctx, cancel := context.WithTimeout(ctx, act.LookTimeout)
	defer cancel()
	counts := make([]ops.Changed, len(o.selections))
	for i, s := range o.selections {
		// A dry run stores no reason.
		result, err := p.desk.OnMessages(ctx, who, o.MessageVerb, ops.Command{
			Selection: s, Reason: "dry run", DryRun: true, CountMost: countMost, CountWithin: countWithin,
		})
		if err != nil {
			return nil, err
		}
		counts[i] = result
	}
	return counts, nil
}

// confirm shows the count, and asks for a reason, before messages are changed.
func (p *Pages) confirm(w http.ResponseWriter, r *http.Request) error {
	if _, err := p.desk.MayAct(act.Who(r)); err != nil {
		return err
	}
	o, err := readOrder(r.URL.Query(), p.desk.Now(r.Context()))
	if err != nil {
		return err
	}
	return p.ask(w, r, o, http.StatusOK, "", "")
}

// ask shows the question, with the problem of an earlier answer.
func (p *Pages) ask(w http.ResponseWriter, r *http.Request, o order, status int, reason, problem string) error {
	counts, err := p.count(r.Context(), act.Who(r), o)
	page := web.Confirm{
		Shell: p.shellOf(r, "Confirm", sectionMessages), Verb: o.Name, Scope: o.scope(), Fields: slices.Clone(o.fields),
		Reason: reason, Required: needsReason(o.MessageVerb), Problem: problem, Changed: o.changed, Back: o.back(),
	}
	if err != nil {
		c := p.desk.Complain(r.Context(), err)
		if problem != "" { // the problem says what was done
			c.Status, c.Message = status, problem
		}
		if c.Status >= http.StatusInternalServerError {
			p.Fail(w, r, c.Status, c.Message)
			return nil
		}
		status, page.Problem = c.Status, c.Message
	}
	for i, c := range counts {
		page.Count, page.AtLeast = page.Count+c.Count, page.AtLeast || c.More
		text := web.Count(c.Count) + " " + string(o.selections[i].State)
		if c.More {
			text = "at least " + text
		}
		page.Parts = append(page.Parts, text)
	}
	if !o.all {
		for _, s := range o.selections {
			page.Sequences = append(page.Sequences, s.Sequences...)
		}
		if more := len(page.Sequences) - sequencesNamed; more > 0 {
			page.Sequences, page.More = page.Sequences[:sequencesNamed], more
		}
	}
	page.Fields = append(page.Fields, web.Field{Name: paramCount, Value: number(page.Count)})
	if page.AtLeast {
		page.Fields = append(page.Fields, web.Field{Name: paramMore, Value: "1"})
	}
	return p.send(w, r, status, "confirm", page)
}

// sequencesNamed bounds the messages that a page names.
const sequencesNamed = 20

func (o order) scope() string {
	if !o.all {
		return "Selected one by one"
	}
	if text := inWords(o.fields); text != "" {
		return "All that match " + text
	}
	return "Every message in that state, in all partitions"
}

// formMessages runs the confirmed action and leads back to the list, whose address holds the result. It stops when the browser leaves;
// changes until then stay, and are in the audit.
func (p *Pages) formMessages(w http.ResponseWriter, r *http.Request) error {
	q, ok := p.form(w, r)
	if !ok {
		return nil
	}
	o, err := readOrder(q, p.desk.Now(r.Context()))
	if err != nil {
		return err
	}
	reason := q.Get(paramReason)
	var expected *int64
	if o.all { // named messages are checked one by one
		expected = new(flashNumber(q, paramCount))
	}
	var total ops.Changed
	for _, s := range o.selections {
		result, err := p.desk.OnMessages(r.Context(), act.Who(r), o.MessageVerb,
			ops.Command{Selection: s, Reason: reason, Expected: expected, AtLeast: q.Get(paramMore) != ""})
		total.Count, total.Waiting, total.Gone = total.Count+result.Count, total.Waiting+result.Waiting, total.Gone+result.Gone
		if err == nil {
			continue
		}
		c := p.desk.Complain(r.Context(), err)
		if o.changed = total.Count; o.changed > 0 {
			c.Message = strings.TrimSuffix(c.Message, ".") + ". Before that, " + web.Count(total.Count) + " were changed; doing it again takes the rest."
		}
		return p.ask(w, r, o, c.Status, reason, c.Message)
	}
	done := url.Values{paramDone: {o.Name}, paramCount: {number(total.Count)}}
	if total.Waiting > 0 {
		done.Set(paramWaiting, number(total.Waiting))
	}
	if total.Gone > 0 {
		done.Set(paramGone, number(total.Gone))
	}
	return p.seeOther(w, r, o.back(), done)
}
