package act

import (
	"context"
	"net/http"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/ui/source"
)

// TopicLoads holds the loads of topics and types.
type TopicLoads struct {
	Topics, Types []source.NameLoad
	// Flows is the sample of the rates; nil: they are unknown.
	Flows *ops.Flows
}

// TopicLoads joins the snapshot's topics and types with the lately published events. Without the latter the rest is still worth
// showing.
func (d *Desk) TopicLoads(r *http.Request, seen source.Observation) TopicLoads {
	var loads TopicLoads
	var topics, types map[string]float64
	flows, err := Look(d, r, func(ctx context.Context, op *ops.Operator) (ops.Flows, error) { return op.Flows(ctx) })
	switch {
	case err != nil && d.Means().Operator != nil:
		d.Logger.WarnContext(r.Context(), "monitor cannot read what was published", logError, source.Scrub(err.Error()))
	case err == nil:
		topics, types = map[string]float64{}, map[string]float64{}
		for _, one := range flows.List {
			topics[one.Topic] += one.PerSecond
			types[one.Type] += one.PerSecond
		}
		loads.Flows = &flows
	}
	loads.Topics, loads.Types = seen.TopicLoads(topics), seen.TypeLoads(types)
	return loads
}
