package api

import (
	"net/http"
	"time"

	"github.com/postrider/postrider/ui/act"
	"github.com/postrider/postrider/ui/source"
)

type ownershipBody struct {
	// Begins is the time of the oldest stored change.
	Begins  *time.Time          `json:"begins"`
	Changes []source.ChangeBody `json:"changes"`
	Next    *int64              `json:"next"`
}

// ownershipParameters are the query parameters of a list of changes.
var ownershipParameters = []string{"partition", "since", "until", "after", "limit"}

func (a *API) ownership(_ http.ResponseWriter, r *http.Request) (any, error) {
	values, err := parameters(r, ownershipParameters, nil)
	if err != nil {
		return nil, err
	}
	q, err := act.OwnershipQuery(values, a.desk.Now(r.Context()))
	if err != nil {
		return nil, err
	}
	history, next, err := a.desk.Cache.OwnershipPage(r.Context(), q)
	return ownershipBody{Begins: source.UTC(source.OrNull(history.Begins)), Changes: source.ChangeBodies(history.Changes), Next: source.OrNull(next)}, err
}
