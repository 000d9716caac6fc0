package ui

import (
	"net/http"
	"strings"

	"github.com/postrider/postrider/ui/api"
)

func (h *Handler) fail(w http.ResponseWriter, r *http.Request, status int) {
	switch status {
	case http.StatusNotFound:
		h.failWith(w, r, status, "not_found", "There is nothing at this address.")
	case http.StatusMethodNotAllowed:
		h.failWith(w, r, status, "method_not_allowed", "This address takes other methods; see the Allow header.")
	case http.StatusUnauthorized:
		h.failWith(w, r, status, "unauthorized", "Log in to see the monitor.")
	case http.StatusForbidden:
		h.failWith(w, r, status, "forbidden", "You may not see this.")
	default:
		h.failWith(w, r, status, "internal", "The monitor failed. Its log tells more.")
	}
}

// failWith answers under /api in JSON and elsewhere with a page.
func (h *Handler) failWith(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	if r.URL.Path == "/api" || strings.HasPrefix(r.URL.Path, "/api/") {
		api.Fail(w, status, code, message)
		return
	}
	h.pages.Fail(w, r, status, message)
}
