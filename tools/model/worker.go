package model

// system emits the states that follow a state.
type system struct {
	Config
	Protocol
	canon     canon
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
	x.crash(s)
	return x.truncated
}

// worker emits the steps of one worker. A step is what happens between two moments at which the worker may be paused.
// Sending and being answered is one step: to everybody else a slow request is a pause before it, and a slow answer is a
// pause after it.
func (x *system) worker(s *State, w uint8) {
	if s.Workers[w].At == Idle {
		x.acquire(s, w)
		return
	}
	x.renew(s, w)
	x.stop(s, w)
	x.takeAnew(s, w)
	switch s.Workers[w].At {
	case ReadRecord:
		x.readRecord(s, w)
	case WriteFence:
		x.writeFence(s, w)
	case MarkRows:
		x.markRows(s, w)
	case ClaimRows:
		x.claimRows(s, w)
		x.free(s, w)
	case FlushClaim:
		x.flushClaim(s, w)
	case SendBatch:
		x.sendBatch(s, w)
	case ReadBack:
		x.readBack(s, w)
	}
}

// takeover, e: from the database's lease row.
func (x *system) acquire(s *State, w uint8) {
	n := *s
	if n.Database.Epoch == x.Epochs {
		return
	}
	if epoch, ok := n.Database.acquire(owner(w)); ok {
		n.Workers[w] = Worker{At: ReadRecord, Epoch: epoch, Take: 1}
		x.emit(n, Note{Who: owner(w), Did: "acquires the lease"})
	}
}

// takeAnew: the worker drops what it was about to do, whatever became of it, and takes the partition once more.
func (x *system) takeAnew(s *State, w uint8) {
	if me := s.Workers[w]; me.At > WriteFence && me.Take < x.Takes {
		n := *s
		n.Workers[w] = Worker{At: ReadRecord, Epoch: me.Epoch, Take: me.Take + 1}
		x.emit(n, Note{Who: owner(w), Did: "takes the partition anew"})
	}
}

// takeover: (rec, S) = the last record.
func (x *system) readRecord(s *State, w uint8) {
	x.read(s, func(rec Message, sequence uint8, did string) {
		n := *s
		me := &n.Workers[w]
		note := Note{Who: owner(w), Did: did, Record: rec, Sequence: sequence}
		own := rec.Kind == Fence && rec.Epoch == me.Epoch && rec.Owner == owner(w)
		switch {
		case rec.Epoch > me.Epoch:
			*me = Worker{}
			note.Then = "a higher epoch: stops"
		case own && (rec.Take == me.Take || x.FenceByEpoch):
			if x.FenceFromMemory {
				rec.Events = me.Known.Events
			}
			me.stand(rec, sequence)
			note.Then = "its own fence: stands"
		case x.NoFence:
			me.stand(rec, sequence)
			note.Then = "stands"
		default:
			me.At, me.Known, me.Expect = WriteFence, rec, sequence
		}
		x.emit(n, note)
	})
}

// takeover: write fence{e, me, copy of rec} expecting S.
func (x *system) writeFence(s *State, w uint8) {
	me := s.Workers[w]
	rec := Message{Kind: Fence, Epoch: me.Epoch, Owner: owner(w), Take: me.Take, Batch: me.Known.Batch, Events: me.Known.Events}
	written := rec
	if x.FenceWithoutCopy {
		written.Events = 0
	}
	readAgain := func(me *Worker) {
		known := me.Known
		*me = Worker{At: ReadRecord, Epoch: me.Epoch, Take: me.Take}
		if x.FenceFromMemory {
			me.Known = known
		}
	}
	x.send(s, w, Request{Record: written, Expect: me.Expect, Blind: x.BlindFence}, reaction{
		stored:  func(me *Worker, sequence uint8) { me.stand(rec, sequence) }, // proves that rec was the last record
		refused: readAgain,
		unknown: readAgain,
	})
}

// stand: the worker knows the last record. What it lists is marked before anything is claimed.
func (me *Worker) stand(rec Message, sequence uint8) {
	me.Known, me.Expect = rec, sequence
	me.Claimed, me.Stored, me.Events = 0, 0, 0
	me.At = MarkRows
	if rec.Events == 0 {
		me.At = ClaimRows
	}
}

// takeover, at its end, and after every claim: mark what the record lists.
func (x *system) markRows(s *State, w uint8) {
	me := s.Workers[w]
	mark := Message{Kind: Mark, Epoch: me.Epoch, Owner: owner(w), Events: me.Known.Events}
	n := *s
	note := Note{Who: owner(w), Did: "sends", Record: mark, Blind: true, Then: "done"}
	if n.Database.mark(mark, x.Protocol) {
		n.Workers[w].At = ClaimRows
		if x.ForgetRecord {
			n.Workers[w].Known.Events = 0
		}
	} else {
		n.Workers[w] = Worker{}
		note.Then = "the lease is lost: stops"
	}
	x.emit(n, note)
	x.hold(*s, w, Request{Record: mark})
}

// claimRows reads the first undelivered rows. A row that the last record lists is back because its mark was lost: it is
// marked again, not published again.
func (x *system) claimRows(s *State, w uint8) {
	rows := s.Database.Rows &^ s.Workers[w].Aside
	if rows&s.Workers[w].Known.Events != 0 {
		n := *s
		n.Workers[w].At = MarkRows
		x.emit(n, Note{Who: owner(w), Did: "claims", Record: Message{Kind: Event, Events: rows}, Then: "the last record lists some"})
		return
	}
	for size := uint8(1); size <= min(x.Claim, rows.size()); size++ {
		n := *s
		n.Workers[w].At, n.Workers[w].Claimed = FlushClaim, rows.first(size)
		x.emit(n, Note{Who: owner(w), Did: "claims", Record: Message{Kind: Event, Events: rows.first(size)}})
	}
}

// flushClaim makes durable what the claim has seen, the marks before it among it. It uses the claim's session, see crash.
func (x *system) flushClaim(s *State, w uint8) {
	n := *s
	note := Note{Who: owner(w), Did: "flushes"}
	if x.NoFlush {
		note.Did = "does not flush"
	} else {
		n.Database.flush()
	}
	x.cut(&n, w, note)
}

// cut emits every way to begin the next batch with the first of the claimed events that are not stored yet.
func (x *system) cut(s *State, w uint8, note Note) {
	rest := s.Workers[w].Claimed &^ s.Workers[w].Stored
	for size := uint8(1); size <= rest.size(); size++ {
		n := *s
		me := &n.Workers[w]
		me.At, me.Events = SendBatch, rest.first(size)
		me.Batch++
		x.emit(n, note)
	}
}

// step: send batch{events, watermark{e, me, b}} expecting S, again and again until the answer is definite.
func (x *system) sendBatch(s *State, w uint8) {
	me := s.Workers[w]
	if me.Events == 0 {
		x.cut(s, w, Note{Who: owner(w), Did: "goes on with the claim"})
		return
	}
	rec := Message{Kind: Watermark, Epoch: me.Epoch, Owner: owner(w), Batch: me.Batch, Events: me.Stored | me.Events}
	if x.RecordOfOneBatch {
		rec.Events = me.Events
	}
	if x.RecordWithoutEvents {
		rec.Events = 0
	}
	x.send(s, w, Request{Record: rec, Events: me.Events, Expect: me.Expect, Blind: x.NoExpectation}, reaction{
		stored:  func(me *Worker, sequence uint8) { me.committed(rec, sequence) },
		refused: func(me *Worker) { me.At = ReadBack },
		unknown: func(me *Worker) { // the same events again, expecting the same S
			if x.DecideByRead || x.SkipByRead {
				me.At = ReadBack
			}
			if x.TrustUnknown {
				me.committed(rec, me.Expect)
			}
		},
	})
}

// committed: the batch under way is in the stream. What is stored is known from memory, whatever the record lists. When
// the whole claim is stored, it is marked.
func (me *Worker) committed(rec Message, sequence uint8) {
	me.Known, me.Expect = rec, sequence
	me.Stored |= me.Events
	me.At, me.Events = SendBatch, 0
	if me.Stored == me.Claimed {
		rec.Events = me.Stored
		me.stand(rec, sequence)
	}
}

// step, after a refusal: (rec, q) = the last record.
func (x *system) readBack(s *State, w uint8) {
	x.read(s, func(rec Message, q uint8, did string) {
		n := *s
		me := &n.Workers[w]
		note := Note{Who: owner(w), Did: did, Record: rec, Sequence: q}
		own := rec.Kind == Watermark && rec.Epoch == me.Epoch && rec.Owner == owner(w) && rec.Batch == me.Batch
		switch {
		case own && (q > me.Expect || x.OldRecordsCount):
			me.committed(rec, q)
			note.Then = "its own batch: committed"
		case rec.Epoch > me.Epoch:
			*me = Worker{}
			note.Then = "a higher epoch: fenced, stops"
		case x.DecideByRead:
			*me = Worker{At: ClaimRows, Epoch: me.Epoch, Take: me.Take, Known: me.Known, Expect: q, Batch: me.Batch}
			note.Then = "not its batch: claims anew"
		case x.SkipByRead:
			aside := me.Aside | me.Events
			*me = Worker{At: ClaimRows, Epoch: me.Epoch, Take: me.Take, Known: me.Known, Expect: q, Batch: me.Batch, Aside: aside}
			note.Then = "not its batch: puts it aside"
		default: // q = S or older: the read is stale and says nothing; read again
			return
		}
		x.emit(n, note)
	})
}

// renew: a renewal that finds another owner or epoch ends the lease.
func (x *system) renew(s *State, w uint8) {
	n := *s
	if n.Database.renew(owner(w), s.Workers[w].Epoch) {
		x.emit(n, Note{Who: owner(w), Did: "renews its lease"})
	}
}

// stop: SIGKILL, or the worker no longer trusts its lease and drops everything. The lease row stays as it is.
func (x *system) stop(s *State, w uint8) {
	n := *s
	n.Workers[w] = Worker{}
	x.emit(n, Note{Who: owner(w), Did: "crashes or gives up"})
}

// free: a planned handover, with nothing in flight.
func (x *system) free(s *State, w uint8) {
	n := *s
	n.Workers[w] = Worker{}
	if n.Database.free(owner(w), s.Workers[w].Epoch) {
		x.emit(n, Note{Who: owner(w), Did: "gives its lease back"})
	}
}

func owner(w uint8) uint8 { return w + 1 }
