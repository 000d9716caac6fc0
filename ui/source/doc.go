// Package source reads the state that the monitor shows, from the packages that own the tables, and derives totals and causes. Pages,
// API, metrics and commands share it; programs get it under the names of package ui.
//
// # Model
//
//	tables ── Source ── at most one read a second ──▶ Cache ──▶ Observation
//
// A [Source] reads the whole state as one [Snapshot]; [New] composes it from the packages that own the tables. A [Cache] before it admits one
// read a second, however many tabs, scrapes and scripts ask. A Snapshot has totals (snapshot.go), the causes of waits (why.go, condition.go)
// and one JSON form (body.go). A [Readiness] shares the process's own readiness.
//
// # Invariants
//
//   - Nothing on a request's path counts rows: reads that grow with the backlog are repeated less often the longer they take (paced.go).
//   - A transaction is blamed only while it is open and events wait for it: see Snapshot.Stalled. The watermark also stands still where no
//     worker uses it.
//   - Times are the database's. The process's own clock measures only the age of the snapshot.
//   - Shown texts hold no credentials: errors pass [Scrub].
//
// # Failure handling
//
// When the source fails, the last snapshot is given with its age and the error; past StaleAfter it is stale. A failed read is not repeated
// before a second has passed. A watermark that cannot be read is shown as unknown beside the rest.
package source
