// Package walbell rings the bell for producers that do not: it hears commits from PostgreSQL's write-ahead log.
//
// # Model
//
//	asked? ──no──▶ look again now and then
//	  │ yes
//	slot taken? ──yes──▶ look again
//	  │ no
//	make the slot ─▶ hear commits, ring, confirm ─▶ session lost: look again
//
// An outbox asks for it with a publication of the rows that are to be published, which needs no setting of any worker:
//
//	CREATE PUBLICATION postrider_public FOR TABLE public.outbox_ready WITH (publish = 'insert');
//
// One session of all workers then holds a temporary logical replication slot. Its name is the election: PostgreSQL gives it
// to one session at a time, and takes it back when that ends. At the end of each transaction that inserted rows the bell
// rings for their partitions, so that their owners look.
//
// It needs wal_level = logical, one of max_replication_slots and one of max_wal_senders, and a connection without a pooler. Its role
// needs REPLICATION, which membership does not inherit.
//
// # Invariants
//
//   - It is a bell and never the truth: a ring decides about no message. Workers poll as they do
//     without it, and a lost slot costs no more than the latency of polls.
//   - Nothing is rung for a transaction that rolled back, nor for one that put nothing into the outbox; one of another table
//     that is too large for the server's memory may ring once.
//   - A session that lives keeps no log for longer than two Intervals. While it makes the slot, which waits for open
//     transactions, a minute is the limit; without a session none is kept.
//   - The session is never a synchronous standby: commits would be taken for safe because a bell heard of them. Where the
//     server's synchronous_standby_names could mean it there is no slot.
//   - Rings are at least a millisecond apart, however many commits there are.
//   - Large transactions are streamed, and do not go to the server's disk first.
//
// # Failures
//
// Every obstacle is logged once, with its cure, and tried again ever more rarely, up to a minute. A log record is read before its
// transaction is visible, and with synchronous replication well before: the last ring of a burst is therefore repeated, and with order by
// partition workers wait for the transaction anyway.
//
// Decision: ADR 26.
package walbell
