package ui

import "time"

// Patterns are the routes of the API, as "GET /api/v1/summary".
func (h *Handler) Patterns() []string {
	var patterns []string
	for _, one := range h.api.Routes() {
		patterns = append(patterns, one.Pattern())
	}
	return patterns
}

// RenewEvery has rights and relation looked at so often, for a server that does not work yet.
func (s *Server) RenewEvery(d time.Duration) { s.renewal = d }
