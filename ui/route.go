package ui

import (
	_ "embed"
	"net/http"
)

// route is one entry of the API. Each has one in openapi.yaml, and a test
// compares them.
type route struct {
	method, path string
	handle       http.HandlerFunc
	// plain answers are not compressed.
	plain bool
}

func (r route) pattern() string { return r.method + " " + r.path }

// openAPI describes the API as OpenAPI 3.1.
//
//go:embed openapi.yaml
var openAPI []byte

func (h *Handler) apiRoutes() []route {
	const get, post = http.MethodGet, http.MethodPost
	return []route{
		{get, "/api/v1/openapi.yaml", serveOpenAPI, false},
		{get, "/api/v1/summary", h.summary, false},
		{get, "/api/v1/workers", h.workers, false},
		{post, "/api/v1/workers/{worker}/drain", h.postDrain, false},
		{get, "/api/v1/partitions", h.partitions, false},
		{get, "/api/v1/partitions/{partition}", h.partition, false},
		{post, "/api/v1/partitions/pause", h.postPartitions(pausePartitions), false},
		{post, "/api/v1/partitions/resume", h.postPartitions(resumePartitions), false},
		{get, "/api/v1/messages", h.messages, false},
		{get, "/api/v1/messages/{message}", h.message, false},
		{get, "/api/v1/messages/{message}/payload", h.payload, true},
		{post, "/api/v1/messages/requeue", h.postMessages(requeueMessages), false},
		{post, "/api/v1/messages/skip", h.postMessages(skipMessages), false},
		{post, "/api/v1/messages/discard", h.postMessages(discardMessages), false},
		{get, "/api/v1/throughput", h.throughput, false},
		{get, "/api/v1/rebalances", h.rebalances, false},
		{get, "/api/v1/audit", h.audit, false},
		{get, "/api/v1/events", h.events, true},
	}
}

func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(openAPI) // the connection may be gone
}
