package ui

import (
	_ "embed"
	"net/http"

	"github.com/postrider/postrider/ui/act"
)

// route is one entry of the API. Each has one in openapi.yaml, and a test compares them.
type route struct {
	method, path string
	handle       http.HandlerFunc
	// plain answers are not compressed.
	plain bool
	// reads says that the handler reads the query string. Elsewhere it must be empty: a POST with ?dry_run=true would act.
	reads bool
}

func (r route) pattern() string { return r.method + " " + r.path }

// openAPI describes the API as OpenAPI 3.1.
//
//go:embed openapi.yaml
var openAPI []byte

func (h *Handler) apiRoutes() []route {
	const get, post = http.MethodGet, http.MethodPost
	routes := []route{
		{get, "/api/v1/openapi.yaml", serveOpenAPI, false, false},
		{get, "/api/v1/summary", h.summary, false, false},
		{get, "/api/v1/workers", h.workers, false, false},
		{post, "/api/v1/workers/{worker}/drain", h.postWorker(act.Drain), false, false},
		{post, "/api/v1/workers/{worker}/undrain", h.postWorker(act.Undrain), false, false},
		{get, "/api/v1/partitions", h.partitions, false, false},
		{get, "/api/v1/partitions/{partition}", h.partition, false, false},
		{post, "/api/v1/partitions/pause", h.postPartitions(act.Pause), false, false},
		{post, "/api/v1/partitions/resume", h.postPartitions(act.Resume), false, false},
		{get, "/api/v1/messages", h.messages, false, true},
		{get, "/api/v1/messages/{message}", h.message, false, false},
		{get, "/api/v1/messages/{message}/payload", h.payload, true, false},
		{post, "/api/v1/messages/requeue", h.postMessages(act.Requeue), false, false},
		{post, "/api/v1/messages/skip", h.postMessages(act.Skip), false, false},
		{post, "/api/v1/messages/discard", h.postMessages(act.Discard), false, false},
		{get, "/api/v1/throughput", h.throughput, false, false},
		{get, "/api/v1/ownership", h.ownership, false, true},
		{get, "/api/v1/audit", h.audit, false, true},
		{get, "/api/v1/events", h.events, true, false},
	}
	for i, one := range routes {
		if !one.reads {
			routes[i].handle = h.withoutParameters(one.handle)
		}
	}
	return routes
}

func (h *Handler) withoutParameters(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := parameters(r, nil, nil); err != nil {
			h.failBy(w, r, err, 0)
			return
		}
		next(w, r)
	}
}

func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(openAPI) // the connection may be gone
}
