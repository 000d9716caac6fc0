package api

import (
	_ "embed"
	"net/http"

	"github.com/postrider/postrider/ui/act"
)

// Route is one entry of the API. A test compares it with openapi.yaml.
type Route struct {
	Method, Path string
	Handle       http.HandlerFunc
	// Plain leaves answers uncompressed.
	Plain bool
	// reads says that the handler reads the query string. Elsewhere that must be empty: a POST with ?dry_run=true would act.
	reads bool
}

// Pattern is the route as http.ServeMux takes it.
func (r Route) Pattern() string { return r.Method + " " + r.Path }

// openAPI describes the API as OpenAPI 3.1.
//
//go:embed openapi.yaml
var openAPI []byte

// Routes are all addresses of the API.
func (a *API) Routes() []Route {
	const get, post = http.MethodGet, http.MethodPost
	routes := []Route{
		{get, "/api/v1/openapi.yaml", serveOpenAPI, false, false},
		{get, "/api/v1/summary", ofSnapshot(a, a.newSummaryBody), false, false},
		{get, "/api/v1/workers", ofSnapshot(a, newWorkersBody), false, false},
		{post, "/api/v1/workers/{worker}/drain", a.json(a.postWorker(act.Drain)), false, false},
		{post, "/api/v1/workers/{worker}/undrain", a.json(a.postWorker(act.Undrain)), false, false},
		{get, "/api/v1/partitions", ofSnapshot(a, newPartitionsBody), false, false},
		{get, "/api/v1/partitions/{partition}", a.json(a.partition), false, false},
		{post, "/api/v1/partitions/pause", a.json(a.postPartitions(act.Pause)), false, false},
		{post, "/api/v1/partitions/resume", a.json(a.postPartitions(act.Resume)), false, false},
		{get, "/api/v1/partitions/resize", a.json(a.resizing), false, false},
		{post, "/api/v1/partitions/resize", a.json(a.postResize), false, false},
		{get, "/api/v1/messages", a.json(a.messages), false, true},
		{get, "/api/v1/messages/causes", a.json(a.causes), false, true},
		{get, "/api/v1/messages/{message}", a.json(a.message), false, false},
		{get, "/api/v1/messages/{message}/payload", a.payload, true, false},
		{post, "/api/v1/messages/requeue", a.json(a.postMessages(act.Requeue)), false, false},
		{post, "/api/v1/messages/skip", a.json(a.postMessages(act.Skip)), false, false},
		{post, "/api/v1/messages/discard", a.json(a.postMessages(act.Discard)), false, false},
		{get, "/api/v1/throughput", ofSnapshot(a, newThroughputBody), false, false},
		{get, "/api/v1/ownership", a.json(a.ownership), false, true},
		{get, "/api/v1/topics", a.json(a.topics), false, false},
		{get, "/api/v1/replays", a.json(a.replays), false, true},
		{post, "/api/v1/replays", a.json(a.postReplay), false, false},
		{get, "/api/v1/replays/{replay}", a.json(a.replay), false, false},
		{post, "/api/v1/replays/{replay}/cancel", a.json(a.postCancelReplay), false, false},
		{get, "/api/v1/audit", a.json(a.audit), false, true},
		{get, "/api/v1/events", a.events, true, false},
	}
	for i, one := range routes {
		if !one.reads {
			routes[i].Handle = a.withoutParameters(one.Handle)
		}
	}
	return routes
}

func (a *API) withoutParameters(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := parameters(r, nil, nil); err != nil {
			a.failBy(w, r, err)
			return
		}
		next(w, r)
	}
}

func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(openAPI) // the connection may be gone
}
