// Command searchsync keeps a search index in step with documents in PostgreSQL: an embedded Bleve index, or one of a
// Meilisearch server.
//
//	DATABASE_URL=… NATS_URL=… go run . demo        # in examples/searchsync, a module of its own for the weight of Bleve
//
// # Model
//
//	BEGIN                       NATS                     searchsync run
//	  documents: row, version                            BEGIN
//	  outbox: event ── relay ──▶ events.documents.> ──▶    inbox: event seen?
//	COMMIT                                                 lock the document, read it as it is now
//	                                                       index: put or remove it
//	                                                     COMMIT
//
// The event is a pointer: it says that a document changed, not how. Whoever gets it reads the document under a lock of its
// own, and writes what it has read, or removes what is not there, before it lets go. So the order in which events come does
// not matter to the result: an older one brings the newest state, never an older one; a deleted document stays deleted;
// A, then B, then A again are three versions and end as A. A deleted document keeps its row, so that its version does not
// begin again. Check, repair and reindex read the same rows under the same lock.
//
// Every index has an inbox of its own. Package inbox decides which events are due: once each, in the order of each document, with backoff and dead letters per
// document, spread over any number of processes. The other way, a position stored with the index, would fit an embedded
// index that takes all or nothing; but one document that the index refuses would hold up all others, or need the same
// tables. What the inbox cannot do is to make the index part of its transaction. It need not: an event that comes again
// brings the document again.
//
// # Failure handling
//
// An index that is away, slow, limits the rate (Retry-After is obeyed), fails a task or has got a wrong key is tried again
// for ever with backoff, document by document: later events of a document wait behind its first, other documents go on. What
// Meilisearch refuses for good (a document that is too large, say) is dead at once and waits for a person: parked, requeue.
//
// What the inbox has recorded the index may still lack: it was restored from an older copy, somebody changed it. check
// compares version and content of every document and ends with status 1 if one is missing, stale or extra; what is on its
// way gets --settle to arrive. repair brings those documents again. reindex fills a fresh index, swaps it in at the end in
// one step, and mends what changed meanwhile; interrupted, it leaves the index that was there. A new index is filled with
// it, since events older than the stream keeps do not come again.
//
// A Bleve index has room for one process, which answers the commands over HTTP. Several processes may serve one index of
// Meilisearch: the lock keeps them from writing one document at a time. One hole is left: a request to Meilisearch that
// timed out may still arrive when the lock is free again, with an older state. check finds that.
package main
