package ui

import (
	"context"
	"net/http"
	"time"

	"github.com/postrider/postrider/ui/api"
	"github.com/postrider/postrider/ui/source"
)

const readyTimeout = 5 * time.Second

type health struct {
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
}

// live reports that the process serves requests, and asks nothing else: if a lost database failed it, an orchestrator would kill processes
// that wait to resume.
func (h *Handler) live(w http.ResponseWriter, _ *http.Request) {
	api.WriteJSON(w, http.StatusOK, health{Status: "live"})
}

func (h *Handler) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	if err := h.options.Ready(ctx); err != nil {
		api.WriteJSON(w, http.StatusServiceUnavailable, health{Status: "unavailable", Reason: source.Scrub(err.Error())})
		return
	}
	api.WriteJSON(w, http.StatusOK, health{Status: "ready"})
}
