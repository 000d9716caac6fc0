package ui

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/ui/source"
)

type ownershipBody struct {
	// Begins is the time of the oldest change that is kept.
	Begins  *time.Time   `json:"begins"`
	Changes []ChangeBody `json:"changes"`
	Next    *int64       `json:"next"`
}

// ownershipParameters are the names in the query string of a list of changes.
var ownershipParameters = []string{paramPartition, paramSince, paramUntil, paramAfter, paramLimit}

const paramLimit = "limit"

// ownershipQuery reads which changes a list shall show.
func ownershipQuery(values url.Values, now time.Time) (q lease.HistoryQuery, err error) {
	if text := strings.TrimSpace(values.Get(paramPartition)); text != "" {
		id, err := partitionNumber(text)
		if err != nil {
			return q, err
		}
		q.Partition = &id
	}
	if q.Since, err = momentIn(values, paramSince, now); err != nil {
		return q, err
	}
	if q.Until, err = momentIn(values, paramUntil, now); err != nil {
		return q, err
	}
	q.Before, q.Limit, err = paging(values)
	return q, err
}

func (h *Handler) ownership(w http.ResponseWriter, r *http.Request) {
	values, err := parameters(r, ownershipParameters, nil)
	if err != nil {
		h.failBy(w, r, err, 0)
		return
	}
	q, err := ownershipQuery(values, time.Now())
	if err != nil {
		h.failBy(w, r, err, 0)
		return
	}
	history, next, err := h.cache.OwnershipPage(r.Context(), q)
	if err != nil {
		h.failBy(w, r, err, 0)
		return
	}
	writeJSON(w, http.StatusOK, ownershipBody{Begins: source.UTC(source.OrNull(history.Begins)), Changes: ChangeBodies(history.Changes), Next: source.OrNull(next)})
}
