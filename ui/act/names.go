package act

import (
	"context"
	"net/http"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/ui/source"
)

// TopicLoads is what topics and types do.
type TopicLoads struct {
	Topics, Types []source.NameLoad
	// Flows is what the rates were estimated from; nil: they are not known.
	Flows *ops.Flows
}

// TopicLoads joins what the snapshot knows of topics and types with what was published lately. Where that cannot be read the rest is worth
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
