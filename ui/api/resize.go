package api

import (
	"net/http"

	"github.com/postrider/postrider/delivery/ops/resize"
	"github.com/postrider/postrider/ui/act"
)

// resizeCommand has the names of the arguments of `postrider partitions resize`.
type resizeCommand struct {
	Count  int  `json:"count"`
	DryRun bool `json:"dry_run"`
	// Expected refuses the action where the outbox has another number of partitions.
	Expected int    `json:"expected_from"`
	Reason   string `json:"reason"`
}

func (a *API) resizing(_ http.ResponseWriter, r *http.Request) (any, error) {
	census, last, err := a.desk.Resizing(r.Context())
	return resize.BodyOf(census, last, act.WhyNotResized), err
}

// postResize answers when the resize has ended, as the command does; the resize outlives the request.
func (a *API) postResize(w http.ResponseWriter, r *http.Request) (any, error) {
	var body resizeCommand
	if err := a.readCommand(w, r, &body); err != nil {
		return nil, err
	}
	act.Prolong(w)
	order := resize.Wanted{To: body.Count, From: body.Expected, Reason: body.Reason}
	if body.DryRun {
		plan, err := a.desk.PlanResize(r.Context(), act.Who(r), order)
		return plan, err
	}
	wait, err := a.desk.Resize(r.Context(), act.Who(r), order)
	var done resize.Resized
	if err == nil {
		done, err = wait(r.Context())
	}
	if err != nil {
		return nil, err
	}
	a.desk.Cache.Outdate()
	return done, nil
}
