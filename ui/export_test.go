package ui

// Patterns are the routes of the API, as "GET /api/v1/summary".
func (h *Handler) Patterns() []string {
	var patterns []string
	for _, one := range h.api.Routes() {
		patterns = append(patterns, one.Pattern())
	}
	return patterns
}
