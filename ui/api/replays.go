package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/postrider/postrider/delivery/ops/replay"
	"github.com/postrider/postrider/ui/act"
	"github.com/postrider/postrider/ui/source"
)

type replaysBody struct {
	Replays []replay.Body `json:"replays"`
	Next    *int64        `json:"next"`
}

// replayCommand holds pointers, since an empty text must not select all.
type replayCommand struct {
	Kind     string   `json:"kind"`
	Stream   *string  `json:"stream"`
	Topic    *string  `json:"topic"`
	Type     *string  `json:"type"`
	Tenant   *string  `json:"tenant"`
	Since    *string  `json:"since"`
	Until    *string  `json:"until"`
	From     *int64   `json:"from_sequence"`
	To       *int64   `json:"to_sequence"`
	All      bool     `json:"all"`
	Rate     *float64 `json:"rate"`
	DryRun   bool     `json:"dry_run"`
	Expected *int64   `json:"expected_count"`
	Reason   string   `json:"reason"`
}

type cancelCommand struct {
	Reason string `json:"reason"`
}

func (a *API) replays(_ http.ResponseWriter, r *http.Request) (any, error) {
	after, limit, err := paging(r)
	if err != nil {
		return nil, err
	}
	jobs, err := a.desk.ListReplays(r.Context(), after, limit)
	if err != nil {
		return nil, err
	}
	body := replaysBody{Replays: []replay.Body{}}
	for _, j := range jobs {
		body.Replays = append(body.Replays, replayBody(j))
	}
	if len(jobs) == limit {
		body.Next = &jobs[limit-1].ID
	}
	return body, nil
}

// replayBody is a replay's body, its error without credentials.
func replayBody(j replay.Job) replay.Body {
	j.LastError, j.WaitingFor = source.Scrub(j.LastError), source.Scrub(j.WaitingFor)
	return j.Body()
}

func (a *API) replay(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := act.ReplayNumber(r.PathValue("replay"))
	var j replay.Job
	if err == nil {
		j, err = a.desk.ShowReplay(r.Context(), id)
	}
	return replayBody(j), err
}

func (a *API) postReplay(w http.ResponseWriter, r *http.Request) (any, error) {
	var body replayCommand
	if err := a.readCommand(w, r, &body); err != nil {
		return nil, err
	}
	spec, err := body.spec(a.desk.Now(r.Context()))
	if err != nil {
		return nil, err
	}
	act.Prolong(w)
	if body.DryRun {
		plan, err := a.desk.CountReplay(r.Context(), act.Who(r), spec)
		return spec.Body(plan), err
	}
	j, err := a.desk.Replay(r.Context(), act.Who(r), spec, body.Expected)
	return replayBody(j), err
}

func (a *API) postCancelReplay(w http.ResponseWriter, r *http.Request) (any, error) {
	var body cancelCommand
	if err := a.readCommand(w, r, &body); err != nil {
		return nil, err
	}
	id, err := act.ReplayNumber(r.PathValue("replay"))
	var j replay.Job
	if err == nil {
		j, err = a.desk.CancelReplay(r.Context(), act.Who(r), id, body.Reason)
	}
	return replayBody(j), err
}

// spec reads the fields as the pages' form has them.
func (c replayCommand) spec(now time.Time) (replay.Spec, error) {
	values, err := given(map[string]*string{
		"stream": c.Stream, "topic": c.Topic, "type": c.Type, "tenant": c.Tenant, "since": c.Since, "until": c.Until,
		"from_sequence": decimal(c.From), "to_sequence": decimal(c.To), "rate": fraction(c.Rate),
	})
	if err != nil {
		return replay.Spec{}, err
	}
	values.Set("kind", c.Kind)
	values.Set("reason", c.Reason)
	if c.All {
		values.Set("all", "true")
	}
	return act.ReplaySpec(values, now)
}

func decimal(n *int64) *string {
	if n == nil {
		return nil
	}
	return new(strconv.FormatInt(*n, 10))
}

func fraction(n *float64) *string {
	if n == nil {
		return nil
	}
	return new(strconv.FormatFloat(*n, 'g', -1, 64))
}
