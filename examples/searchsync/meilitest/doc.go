// Package meilitest is a server that speaks the part of Meilisearch's HTTP API that a search index needs, as Meilisearch
// 1.x does (https://www.meilisearch.com/docs/reference/api/overview), for tests that cannot run the real one.
//
// # Model
//
// Every change is a task: the request is checked, answered 202 with the number of the task, and worked on later, one task
// after the other in the order of acceptance. GET /tasks/{uid} tells how it went. Keys, error codes and status codes are
// the real ones: no key 401, a wrong one 403, an unknown index 404, a document id with other characters than letters,
// digits, - and _ fails its task. Documents are stored as they come, and searched by words in the searchable attributes.
//
// # Faults
//
// A Fault decides per request what goes wrong: a status (429 with Retry-After, 500, 503), a connection that breaks before
// or after the request was taken, silence, a task that fails, a task that takes long. Each is what a client meets in
// production; none loses what was acknowledged with a task that succeeded.
package meilitest
