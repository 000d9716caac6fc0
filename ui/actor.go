package ui

import "net/http"

// actor names who sends the request, for the audit. It is asked only of requests
// that were let in.
func (h *Handler) actor(r *http.Request) string {
	if name, _, ok := r.BasicAuth(); ok && len(h.auth.users) > 0 {
		return name
	}
	if r.Header.Get("Authorization") != "" && len(h.auth.tokens) > 0 {
		return "token"
	}
	return "local"
}
