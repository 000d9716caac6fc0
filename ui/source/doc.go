// Package source is what the monitor shows: the cluster's state, read from the packages that own the tables, and what follows from it, for
// pages, API, metrics and commands alike. Programs get it under the names of package ui.
//
// # Model
//
//	tables ── Source ── at most one read a second ──▶ Cache ──▶ Observation
//
// A [Source] reads the whole state as one [Snapshot]; [New] composes it from the packages that own the tables. A [Cache] stands before it
// and lets through one read a second, however many tabs, scrapes and scripts ask. A Snapshot adds itself up (snapshot.go), says what keeps
// events waiting (why.go, condition.go) and has one JSON form (body.go). A [Readiness] shares what the process says of itself.
//
// # Invariants
//
//   - Nothing on a request's path counts rows: what grows with the backlog is read less often the longer it takes (paced.go).
//   - A transaction is blamed only while it is open and events wait for it: see Snapshot.Stalled. The watermark stands still, too, where no
//     worker uses it.
//   - Times are the database's. The process's own clock measures nothing but the age of the snapshot.
//   - No credentials in what is shown: errors pass [Scrub].
//
// # Failure handling
//
// When the source fails, the last snapshot is given with its age and the error; past StaleAfter it is stale. A failed read is not repeated
// before a second has passed. A watermark that cannot be read is shown as unknown beside the rest.
package source
