package model

import "github.com/postrider/postrider/tools/model/search"

// system emits the states that follow a state.
type system struct {
	Config
	Protocol

	exact     bool // no states count as one: for the test of just that
	emit      func(State, Note)
	truncated bool
}

// Successors implements search.System, whoever makes the step.
func (x *system) Successors(s *State, emit func(State, Note)) (truncated bool) {
	x.emit, x.truncated = emit, false
	for w := range x.Workers {
		x.worker(s, w)
	}
	x.deliver(s)
	x.time(s)
	x.reclaim(s)
	x.crash(s)
	return x.truncated
}

// worker emits the steps of one worker. A step lies between two moments at which the worker may be paused.
// Sending and being answered is one step: to everybody else a slow request is a pause before it, and a slow answer is a
// pause after it.
func (x *system) worker(s *State, w uint8) {
	me := s.Workers[w]
	if me.At == Idle {
		x.acquire(s, w)
		return
	}
	x.renew(s, w)
	x.stop(s, w)
	x.takeAnew(s, w)
	switch me.At {
	case ReadRecord:
		x.readRecord(s, w)
	case WriteFence:
		x.writeFence(s, w)
	case MeetAnnounced:
		x.meetAnnounced(s, w)
	case WalkRecords:
		x.walkRecords(s, w)
	case MarkRows:
		x.markRows(s, w)
	case ClaimRows:
		x.markLate(s, w)
		x.claimRows(s, w)
		x.free(s, w)
	case SendBatch:
		x.markLate(s, w)
		x.sendBatch(s, w)
		x.announce(s, w)
	case SendSingle:
		x.markLate(s, w)
		x.sendSingle(s, w)
	case CloseSingles:
		x.markLate(s, w)
		x.closeSingles(s, w)
	case Lost:
		x.markLate(s, w)
	case ReadBack:
		x.markLate(s, w)
		x.readBack(s, w)
	}
}

// markRows marks behind a walk, or behind a batch that left something: only then is anything claimed.
func (x *system) markRows(s *State, w uint8) {
	x.tryMark(s, w, s.Workers[w].Pending, s.Workers[w].Passed)
}

// markLate marks the events published by now, at any time. Nothing waits for it.
func (x *system) markLate(s *State, w uint8) {
	me := s.Workers[w]
	published, passed := me.Pending, Set(0)
	if x.MarkInTheAir {
		published |= me.Publish
	}
	if x.GoOnPastFailed && me.At == ClaimRows {
		passed = me.Passed
	}
	if published|passed != 0 {
		x.tryMark(s, w, published, passed)
	}
}

// tryMark emits each outcome of a mark.
func (x *system) tryMark(s *State, w uint8, published, passed Set) {
	me := s.Workers[w]
	if me.Stale {
		return
	}
	m := Message{Kind: Mark, Epoch: me.Epoch, Owner: owner(w), Events: published, Passed: passed, Upto: me.Expect}
	if x.MarkWhereClaimed {
		m.Retried = me.Retried & published
	}
	if x.Compare {
		m.From = me.Marked
	}
	if !x.MarkInParts {
		x.sendMark(s, w, m)
		return
	}
	published.Subsets(func(part Set) {
		m.Events = part
		x.sendMark(s, w, m)
	})
}

func (x *system) sendMark(s *State, w uint8, m Message) {
	n := *s
	me := &n.Workers[w]
	note := Note{Who: owner(w), Did: "sends", Record: m, Then: "done"}
	switch {
	case x.mark(&n.Database, m):
		me.marked(m)
		me.Marked = n.Database.Progress
	case n.Database.holds(m.Owner, m.Epoch):
		me.Stale = true
		note.Then = "the database is behind: nothing is marked"
	default:
		*me = Worker{}
		note.Then = "the lease is lost: stops"
	}
	x.emit(n, note)

	held := *s
	if x.TrustMark {
		held.Workers[w].marked(m)
	}
	x.hold(held, w, Request{Record: m})
}

// marked: a mark was made.
func (me *Worker) marked(m Message) {
	me.Pending &^= m.Events
	me.Retried &^= m.Events
	me.Passed &^= m.Passed
	if me.At == MarkRows && me.Pending|me.Passed == 0 {
		me.At = ClaimRows
	}
}

// claimRows reads the first rows that wait, and parked ones that are due. Those that are published and not marked are left
// out: they lie below the cursor that the worker has in its memory. Of the rows read some fail, and a row behind a
// parked one of its stream is blocked: they are passed.
func (x *system) claimRows(s *State, w uint8) {
	me, d := s.Workers[w], s.Database
	if x.Compare && x.behind(d.Partition, me.Marked) {
		n := *s
		n.Workers[w].Stale = true
		x.emit(n, Note{Who: owner(w), Did: "claims", Then: "the database is behind: nothing is claimed"})
		return
	}
	if me.Stale {
		return
	}
	rows, parked := d.waiting(), d.Parked
	if !x.ClaimPending {
		rows &^= me.Pending | me.Passed
	}
	if !x.ClaimParked {
		parked &^= me.Pending
	}
	behind := rows &^ search.UpTo(me.Cursor)
	x.claim(s, w, behind, parked)
	if rows != behind {
		x.claim(s, w, rows, parked)
	}
}

func (x *system) claim(s *State, w uint8, rows, parked Set) {
	for size := uint8(0); size <= min(x.Claim, rows.Size()); size++ {
		fresh := rows.First(size)
		(fresh & x.Fail).Subsets(func(failed Set) {
			passed := failed | fresh&(failed|parked).Behind()
			parked.Subsets(func(retried Set) {
				if blocked := (parked &^ retried).Behind(); fresh|retried != 0 && retried&blocked == 0 {
					x.begin(s, w, fresh&^passed, retried, passed)
				}
			})
		})
	}
}

// begin puts a batch into the air, or, where none can be published, leaves the passed events to the next mark.
func (x *system) begin(s *State, w uint8, fresh, retried, passed Set) {
	n := *s
	me := &n.Workers[w]
	n.Passed |= passed
	me.Publish, me.Passed = fresh|retried, me.Passed|passed
	me.Retried |= retried
	if !x.ForgetSeen {
		me.Marked = n.Database.Progress
	}
	me.Cursor = max(me.Cursor, (fresh | passed).Top())
	me.At = SendBatch
	if me.Publish == 0 {
		x.settled(me)
	}
	x.emit(n, Note{Who: owner(w), Did: "claims", Record: Message{Kind: Event, Events: me.Publish}, Passed: passed})
}

// settled: nothing is in the air. The partition goes on at once, unless rows were passed or came from the parking place.
func (x *system) settled(me *Worker) {
	if me.At = ClaimRows; me.Passed|me.Retried != 0 && !x.GoOnPastFailed {
		me.At = MarkRows
	}
}

// step: send batch{record{e, me, events}, events} expecting S, again and again until the answer is definite.
func (x *system) sendBatch(s *State, w uint8) {
	me := s.Workers[w]
	rec := Message{Kind: Batch, Epoch: me.Epoch, Owner: owner(w), Events: me.Publish}
	if x.RecordWithoutEvents {
		rec.Events = 0
	}
	x.send(s, w, Request{Record: rec, Events: me.Publish, Expect: me.Expect, Blind: x.NoExpectation}, reaction{
		stored:  x.stored,
		refused: func(me *Worker) { me.At = ReadBack },
		unknown: func(me *Worker) { // the same events again, expecting the same S
			if x.DecideByRead || x.FailByRead {
				me.At = ReadBack
			}
			if x.TrustUnknown {
				x.stored(me, me.Expect)
			}
		},
	})
}

// stored: the batch in the air is in the stream.
func (x *system) stored(me *Worker, sequence uint8) {
	me.Expect = sequence
	me.Pending, me.Publish = me.Pending|me.Publish, 0
	x.settled(me)
}

// step, after a refusal: (rec, q) = the last record.
func (x *system) readBack(s *State, w uint8) {
	x.read(s, func(rec Message, q uint8, did string) {
		n := *s
		me := &n.Workers[w]
		note := Note{Who: owner(w), Did: did, Record: rec, Sequence: q}
		mine := rec.Owner == owner(w) && rec.Epoch == me.Epoch
		switch {
		case mine && rec.Kind == Batch && q > me.Expect && s.Stream.held(q) != rec.Events && !x.AcceptTorn:
			lost(me)
			note.Then = "its own batch, torn"
		case mine && rec.Kind == Batch && (q > me.Expect || x.OldRecordsCount):
			x.stored(me, q)
			note.Then = "its own batch: stored"
		case rec.Epoch > me.Epoch || q > me.Expect && !mine:
			*me = Worker{}
			note.Then = "a newer owner: fenced, stops"
		case x.DecideByRead:
			me.At, me.Expect, me.Publish = ClaimRows, q, 0
			note.Then = "not its batch: claims anew"
		case x.FailByRead:
			me.At, me.Expect, me.Passed, me.Publish = MarkRows, q, me.Passed|me.Publish&^me.Retried, 0
			n.Passed |= me.Passed
			note.Then = "not its batch: it failed"
		default: // q = S or older: the read is stale and says nothing; read again
			return
		}
		x.emit(n, note)
	})
}

// renew: a renewal that finds another owner or epoch ends the lease.
func (x *system) renew(s *State, w uint8) {
	if n := *s; n.Database.Expired && n.Database.holds(owner(w), s.Workers[w].Epoch) {
		n.Database.Expired = false
		x.flush(&n)
		x.emit(n, Note{Who: owner(w), Did: "renews its lease"})
	}
}

// stop: SIGKILL, or the worker no longer trusts its lease and drops everything. The lease row stays as it is.
func (x *system) stop(s *State, w uint8) {
	n := *s
	n.Workers[w] = Worker{}
	x.emit(n, Note{Who: owner(w), Did: "crashes or gives up"})
}

// free: a planned handover, with nothing in the air.
func (x *system) free(s *State, w uint8) {
	n := *s
	if n.Database.holds(owner(w), s.Workers[w].Epoch) {
		n.Database.Owner, n.Database.Expired = 0, false
		n.Workers[w] = Worker{}
		x.flush(&n)
		x.emit(n, Note{Who: owner(w), Did: "gives its lease back"})
	}
}

func owner(w uint8) uint8 { return w + 1 }
