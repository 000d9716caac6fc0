package replay

import (
	"fmt"
	"strings"
	"time"

	"github.com/postrider/postrider/internal/pg"
)

// PlanBody is an Estimate as commands and API show it.
type PlanBody struct {
	Kind        JobKind     `json:"kind"`
	Destination Destination `json:"destination"`
	Selection   Selection   `json:"selection"`
	Estimate
	DryRun bool `json:"dry_run"`
}

// Body returns an estimate as a dry run shows it.
func (s Spec) Body(e Estimate) PlanBody {
	return PlanBody{Kind: s.Kind, Destination: s.Destination, Selection: s.Selection, Estimate: e, DryRun: true}
}

// Body is a replay as commands and API show it.
type Body struct {
	ID             int64       `json:"id"`
	Kind           JobKind     `json:"kind"`
	Destination    Destination `json:"destination"`
	State          State       `json:"state"`
	Interrupted    bool        `json:"interrupted"`
	Selection      Selection   `json:"selection"`
	Prefix         *string     `json:"prefix"`
	Stream         *string     `json:"stream"`
	Position       int64       `json:"position"`
	Last           int64       `json:"to_sequence"`
	Selected       *int64      `json:"selected"`
	Replayed       int64       `json:"replayed"`
	Gone           int64       `json:"gone"`
	Failed         int64       `json:"failed"`
	StreamSequence int64       `json:"stream_sequence"`
	Generation     int         `json:"generation"`
	Rate           *float64    `json:"rate"`
	Actor          string      `json:"actor"`
	Reason         *string     `json:"reason"`
	CreatedAt      time.Time   `json:"created_at"`
	UpdatedAt      time.Time   `json:"updated_at"`
	FinishedAt     *time.Time  `json:"finished_at"`
	WaitingFor     *string     `json:"waiting_for"`
	LastError      *string     `json:"last_error"`
	Held           *string     `json:"held_back_by,omitempty"`
}

// Body returns the replay with null for absent values.
func (j Job) Body() Body {
	return Body{
		ID: j.ID, Kind: j.Kind, Destination: j.Destination, State: j.State, Interrupted: j.Abandoned(), Selection: j.Selection,
		Prefix: pg.OrNull(j.Prefix), Stream: pg.OrNull(j.Stream), Position: j.Position, Last: j.Last, Selected: j.Selected,
		Replayed: j.Replayed, Gone: j.Gone, Failed: j.Failed, StreamSequence: j.StreamSequence, Generation: j.Generation,
		Rate: pg.OrNull(j.Rate), Actor: j.Actor, Reason: pg.OrNull(j.Reason), CreatedAt: j.CreatedAt.UTC(), UpdatedAt: j.UpdatedAt.UTC(), FinishedAt: pg.UTC(j.FinishedAt),
		WaitingFor: pg.OrNull(j.WaitingFor), LastError: pg.OrNull(j.LastError), Held: pg.OrNull(j.Held),
	}
}

// String writes a selection in the words of the command's flags.
func (s Selection) String() string {
	var parts []string
	add := func(name string, value any) { parts = append(parts, fmt.Sprintf("%s %v", name, value)) }
	if s.All {
		return "all"
	}
	if s.From > 0 {
		add("from", s.From)
	}
	if s.To > 0 {
		add("to", s.To)
	}
	if s.Since != nil {
		add("since", s.Since.Format(time.RFC3339))
	}
	if s.Until != nil {
		add("until", s.Until.Format(time.RFC3339))
	}
	for _, one := range [][2]string{{"stream", s.Stream}, {"type", s.Type}, {"topic", s.Topic}, {"tenant", s.Tenant}} {
		if one[1] != "" {
			add(one[0], one[1])
		}
	}
	return strings.Join(parts, ", ")
}
