// Package prefix checks the protocol that publish mode fenced is to follow once marks may be late and progress is a cursor, by
// visiting every state that a small system can reach. No program imports it, and the relay does not follow it yet: package
// model has what it follows today. `go -C tools test -v ./model/prefix` prints figures and counterexamples.
//
// # Model
//
// A record on the partition's control subject says a prefix with its holes: of this partition everything up to n is in the
// stream, but these. The lease row has a cursor: everything up to it is in the stream, or parked.
//
//	takeover:                                                               worker.go
//	  acquire the lease: e                                                  acquire
//	  loop
//	    (rec, S) = read the last record                                     readRecord
//	    rec.epoch > e, or = e of another owner:  the next lease lies above, stop
//	    rec is the fence of this very takeover:  done
//	    write fence(e, me, what rec says) expecting S                       writeFence
//	  mark what rec says; the cursor lies behind that and the database's    settle
//
//	work:
//	  batch: the rows behind the cursor, parked rows that are due           batch
//	    left out of these: what rec says is stored, what lies ahead of the cursor
//	  send events + watermark(e, me, b, prefix and holes then) expecting S  send
//	    stored at q:  S = q, the cursor moves
//	    no answer:    send the same again, expecting the same S
//	    refused:      (rec, q) = read the last record                       readBack
//	      q <= S:                           stale, read again
//	      rec is my watermark b:            S = q, stored
//	      a higher epoch, or another owner: fenced, stop
//	  mark, at any time later, what is done by then: nothing waits for it   mark
//
// A mark compares owner and epoch, moves the cursor, parks the holes that it passes, and drops parked rows that are stored.
// Rows behind the committed cursor may be reclaimed at any time. A crash of the database, or a failover to a standby that
// lags behind, takes back any number of the last marks, and of a Lagging one the last acquisitions too, so that two
// workers hold leases of one epoch. No claim is flushed: what a lost mark said, the last record says.
//
// Batch numbers go on from the record, and a takeover has a name that no other ever has.
//
// # Invariants
//
// See invariant.go. All hold, with any number of stale reads, lost answers, late bytes, crashes of workers and expiries:
//
//	workers  events  may fail  acquisitions  late marks  failovers           states
//	2        2       one       2             1           1, stale reads      51,231
//	2        2       one       2             1           1, reclaiming       125,546
//	2        2       one       2             1           1, lagging          317,483
//	slow: 2  3       two       2             1           1, stale reads      1,720,306
//	slow: 3  2       one       3             1           1                   1,287,894
//	slow: 2  2       one       2             2           2, lagging, recl.   2,049,994
//
// What each precaution is for, with the length of the shortest counterexample:
//
//	NoExpectation     stored twice 7, a lower epoch behind a higher one 10
//	BlindFence        a lower epoch behind a higher one 7, stored twice 13
//	TrustUnknown      lost 7
//	MarkInTheAir      lost 6
//	PassHoles         lost 6
//	ReclaimAhead      lost 6
//	NoFence           the work cannot be finished 8
//	MarkWithoutOwner  a worker without the lease changes rows 8
//	NoHoles           lost 11
//	OwnHolesOnly      lost 12
//	TrustParked       stored twice 10
//	TrustReady        stored twice 13
//	DecideByRead      stored twice 13
//	ParkAgain         a row stays parked for ever 13
//	FenceByEpoch      lost 14, stored twice 15
//	FenceWithoutCopy  stored twice 14
//	ParkedAhead       stored twice 17
//
// # Failures
//
// A violated invariant comes with the shortest trace that leads to it. What does not fit into the bounds is told
// (Truncated). Not modelled: commits of producers that a crash takes back, lists of holes that are too long for a record, records that are purged, rows of ordering
// stream, events that the database forgets, and operators.
package prefix
