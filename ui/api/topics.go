package api

import (
	"net/http"

	"github.com/postrider/postrider/ui/source"
)

type topicsBody struct {
	freshness
	Topics []nameBody `json:"topics"`
	Types  []nameBody `json:"types"`
	// Sampled and SpanSeconds are the size and span of the rates' sample; null where unknown.
	Sampled     *int64   `json:"sampled"`
	SpanSeconds *float64 `json:"span_seconds"`
}

type nameBody struct {
	Name                    string   `json:"name"`
	PublishedPerSecond      *float64 `json:"published_per_second"`
	OldestPendingAgeSeconds *float64 `json:"oldest_pending_age_seconds"`
	Dead                    *int64   `json:"dead"`
}

func (a *API) topics(_ http.ResponseWriter, r *http.Request) (any, error) {
	seen, err := a.present(r)
	if err != nil {
		return nil, err
	}
	loads := a.desk.TopicLoads(r, seen)
	body := topicsBody{freshness: newFreshness(seen), Topics: nameBodies(loads.Topics), Types: nameBodies(loads.Types)}
	if f := loads.Flows; f != nil {
		body.Sampled, body.SpanSeconds = &f.Sampled, new(source.Seconds(f.Span))
	}
	return body, nil
}

func nameBodies(names []source.NameLoad) []nameBody {
	bodies := make([]nameBody, 0, len(names))
	for _, n := range names {
		body := nameBody{Name: n.Name, PublishedPerSecond: n.PerSecond}
		if s := n.Share; s != nil {
			body.Dead = &s.Dead
			if s.Oldest > 0 {
				body.OldestPendingAgeSeconds = new(source.Seconds(s.Oldest))
			}
		}
		bodies = append(bodies, body)
	}
	return bodies
}
