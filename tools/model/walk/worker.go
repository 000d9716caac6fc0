package walk

// system emits the states that follow a state.
type system struct {
	Config
	Protocol

	exact     bool // no states count as one: for the test of just that
	emit      func(State, Note)
	truncated bool
}

func owner(w uint8) uint8 { return w + 1 }

// Successors implements search.System, whoever makes the step.
func (x *system) Successors(s *State, emit func(State, Note)) (truncated bool) {
	x.emit, x.truncated = emit, false
	for w := range x.Workers {
		x.worker(s, w)
	}
	x.deliver(s)
	x.time(s)
	x.heal(s)
	x.lose(s)
	x.crash(s)
	return x.truncated
}

// worker emits the steps of one worker. A step lies between two moments at which the worker may be paused.
// Sending and being answered is one step: to everybody else a slow request is a pause before it, and a slow answer is a
// pause after it.
func (x *system) worker(s *State, w uint8) {
	at := s.Workers[w].At
	if at == Idle {
		x.acquire(s, w)
		return
	}
	x.renew(s, w)
	x.stop(s, w)
	x.takeAnew(s, w)
	switch at {
	case TakeRow:
		x.takeRow(s, w)
	case ReadRecord:
		x.readRecord(s, w)
	case WriteRecord:
		x.writeRecord(s, w)
	case WalkStream:
		x.walkStream(s, w)
	case Stand:
		x.waits(s, w)
	case MarkRows:
		x.markRows(s, w)
	case ClaimRows:
		x.markLate(s, w)
		x.claimRows(s, w)
		x.free(s, w)
	case Publish:
		x.markLate(s, w)
		x.publish(s, w)
	}
}

// markRows marks behind a walk, or behind events that left something: only then is anything claimed.
func (x *system) markRows(s *State, w uint8) {
	x.tryMark(s, w, s.Workers[w].Pending, s.Workers[w].Failed)
}

// markLate marks the events published by now, at any time. Nothing waits for it.
func (x *system) markLate(s *State, w uint8) {
	me := s.Workers[w]
	published, failed := me.Pending, Set(0)
	if x.MarkInTheAir {
		published |= me.Claimed
	}
	if x.GoOnPastFailed && me.At == ClaimRows {
		failed = me.Failed
	}
	if published|failed != 0 {
		x.tryMark(s, w, published, failed)
	}
}

// tryMark emits each outcome of a mark. One without an answer is made again as it was, so its number identifies its content.
func (x *system) tryMark(s *State, w uint8, published, failed Set) {
	me := s.Workers[w]
	m := me.Asked
	if m.Take == 0 || x.MarkGrows {
		m = Mark{Take: me.Take, Number: me.Marks, Events: published, Failed: failed, Upto: me.Upto, Last: me.Last, At: me.Where}
	}
	n := *s
	note := Note{Who: owner(w), Did: "sends", Request: Request{Mark: m}, Then: "done"}
	if x.mark(&n.Database.Row, m) {
		n.Workers[w].marked(m)
		x.emit(n, note)
	} else {
		note.Then = "the row is not as it was left"
		x.retake(n, w, note)
	}
	held := *s
	if held.Workers[w].Asked = m; x.TrustMark {
		held.Workers[w].marked(m)
	}
	x.hold(held, Request{By: Message{Owner: owner(w)}, Mark: m})
}

// marked: a mark was made.
func (me *Worker) marked(m Mark) {
	me.Marks, me.Asked = m.Number+1, Mark{}
	m.Events.Each(func(n uint8) { me.Where[n-1] = 0 })
	me.Pending &^= m.Events
	me.Retried &^= m.Events
	me.Failed &^= m.Failed
	if me.At == MarkRows && me.Pending|me.Failed == 0 {
		me.At = ClaimRows
	}
}

// claimRows reads the first rows that wait, and parked ones that are due, if the row is as the worker left it. Of the rows read some
// fail, and a row behind a parked one of its stream is blocked.
func (x *system) claimRows(s *State, w uint8) {
	me, d := s.Workers[w], s.Database
	ahead := d.Marks - me.Marks
	switch {
	case x.ClaimComparesNothing || d.Take == me.Take && (ahead == 0 || x.TakeAlone):
	case d.Take == me.Take && ahead == 1 && me.Asked.Take != 0:
		n := *s
		n.Workers[w].marked(me.Asked)
		x.emit(n, Note{Who: owner(w), Did: "claims", Then: "its mark was made"})
		return
	default:
		x.retake(*s, w, Note{Did: "claims", Then: "the row is not as it was left"})
		return
	}
	rows, parked := d.Ready&^me.Failed, d.Parked
	if !x.ClaimPending {
		rows, parked = rows&^me.Pending, parked&^me.Pending
	}
	for size := uint8(0); size <= min(x.Claim, rows.Size()); size++ {
		fresh := rows.First(size)
		(fresh & x.Fail).Subsets(func(failed Set) {
			failed |= fresh & (failed | parked).Behind()
			parked.Subsets(func(retried Set) {
				if blocked := (parked &^ retried).Behind(); fresh|retried != 0 && retried&blocked == 0 {
					x.begin(s, w, fresh&^failed, retried, failed)
				}
			})
		})
	}
}

// begin puts events into the air, or, where none can be published, leaves the failed ones to the next mark.
func (x *system) begin(s *State, w uint8, fresh, retried, failed Set) {
	n := *s
	me := &n.Workers[w]
	n.Passed |= failed
	me.Claimed, me.Failed = fresh|retried, me.Failed|failed
	me.Retried |= retried
	if me.At = Publish; me.Claimed == 0 {
		x.settled(me)
	}
	x.emit(n, Note{Who: owner(w), Did: "claims", Events: me.Claimed, Failed: failed})
}

// settled: nothing is in the air. The partition goes on at once, unless rows failed or came from the parking place.
func (x *system) settled(me *Worker) {
	if me.At = ClaimRows; me.Failed|me.Retried != 0 && !x.GoOnPastFailed {
		me.At = MarkRows
	}
}

// publish: send the events expecting K. Whatever the answer is but "stored", the partition is taken anew.
func (x *system) publish(s *State, w uint8) {
	me := s.Workers[w]
	by := me.signs(owner(w))
	x.send(s, Request{By: by, Events: me.Claimed, Life: me.Life, Expect: me.Expect, Blind: x.NoExpectation}, reaction{
		stored:  func(n *State, sequence uint8) { x.stored(&n.Workers[w], sequence) },
		refused: func(n *State) { x.again(&n.Workers[w]) },
		unknown: func(n *State) {
			me := &n.Workers[w]
			switch {
			case x.SendAgain:
			case x.TrustUnknown:
				x.stored(me, me.Upto)
			case x.ClaimAgain:
				me.Claimed, me.At = 0, ClaimRows
			default:
				x.again(me)
			}
		},
	})
}

// stored: the events in the air are in the stream.
func (x *system) stored(me *Worker, sequence uint8) {
	at := sequence - me.Claimed.Size()
	me.Claimed.Each(func(n uint8) {
		at++
		me.Where[n-1] = at
	})
	me.Upto, me.Last = sequence, Message{Event: me.Claimed.Top()}
	me.Pending, me.Claimed = me.Pending|me.Claimed, 0
	x.settled(me)
}

// renew: a renewal that finds another owner or epoch ends the lease.
func (x *system) renew(s *State, w uint8) {
	if n := *s; n.Database.Expired && n.Database.leased(owner(w), s.Workers[w].Epoch) {
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
	if n.Database.leased(owner(w), s.Workers[w].Epoch) {
		n.Database.Owner, n.Database.Expired = 0, false
		n.Workers[w] = Worker{}
		x.flush(&n)
		x.emit(n, Note{Who: owner(w), Did: "gives its lease back"})
	}
}
