// Package ui is the monitor: an [http.Handler] with its pages, the JSON API, the event stream, the health checks and the metrics endpoint,
// and a [Server] with safe defaults around it. The handler mounts in a program's own server just as well.
//
// # Model
//
//	tables ──▶ source ──▶ act ──▶ pages, api ──▶ ui
//
// Package source reads the state, package act acts for operators, package pages answers people and package api programs. This package has the
// handler before them, authentication, server, configuration, health and metrics, and the names by which programs know the rest. A [Source]
// reads the whole state as one [Snapshot], a [Cache] shares it among all requests: every answer carries the snapshot's age.
//
// Requests pass, from the outside in: security headers, body limit, cross-origin protection, base path, and then, except for health checks,
// the host allow-list and authentication.
//
//	/                    the overview; ?partitions=table shows these as a table
//	/partitions/{n}      one partition's story
//	/partitions/resize   how many there are, and how far a change is; /partitions/resize/confirm counts and asks
//	/messages            the list under its filters, and /messages/{sequence or id}
//	/messages/causes     dead messages by cause
//	/messages/confirm    asks before messages are changed
//	/streams?stream={id} one stream's events, each with its outcome
//	/topics              rate, oldest age and dead by topic and by type
//	/workers/{id}/drain  asks before a worker is drained
//	/replays             replays and how far they are; /replays/confirm counts and asks, /replays/{n}/cancel asks before one is ended
//	/audit               the acts of operators
//	/actions/            where the pages' forms are posted
//	/healthz             200 while the process serves
//	/readyz              200, or 503 and a reason
//	/metrics             Prometheus
//	/api/v1/             the JSON API; see openapi.yaml in package api
//
// Reads of single messages, and all actions, go past the cache to Options.Operator, each with a deadline of its own; without one these routes
// answer 501.
//
// # Invariants
//
//   - Without authentication only connections to a loopback address are served, and only under a loopback host name or one that was
//     configured (a foreign name on a loopback address is DNS rebinding). [Server] already refuses to listen elsewhere; [Handler] checks
//     again for each connection, since it can't know whose server it was mounted in.
//   - A request that is not GET or HEAD needs [AccessOperate] and the same origin. GET changes nothing.
//   - An action is audited under the name that the request's credentials belong to, that a trusted proxy gave, or that the embedding
//     program gave. Nothing in the request chooses it.
//   - Payloads and metadata leave the process only with Options.ShowPayload, and only for [AccessOperate]. Reasons, filters and payloads are
//     never logged.
//   - Liveness asks nobody: an outage of the database must not kill processes. Readiness asks Options.Ready.
//   - Credentials are compared in constant time, at most twenty wrong ones at once of one user from one address, and never logged. Query
//     strings, which may hold a user's text, are not logged either.
//   - The connections of a [Server] are bounded; waiting ones give way to new ones, so that probes get through.
//   - No list is read to its end on a request's path: it is searched for some milliseconds, and the answer says how far.
//
// # Failure handling
//
// When the source fails, answers are made from the last snapshot and say its age. Past StaleAfter the JSON API answers 503 and the collector
// stops reporting gauges, so that no alert rests on old numbers; the page shows the last state under a warning. Clients see in general words
// that the database did not answer; the cause goes to the log, without credentials.
//
// Open event streams keep http.Server.Shutdown waiting. [Server] ends them by itself; elsewhere register [Handler.CloseStreams] with
// RegisterOnShutdown.
package ui
