package prefix

// worker emits the steps of one worker. A step is what happens between two moments at which the worker may be paused.
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
	case Settle:
		x.settle(s, w)
	case Work:
		x.batch(s, w)
		x.mark(s, w)
		x.free(s, w)
	case SendBatch:
		x.mark(s, w)
		x.send(s, w)
	case ReadBack:
		x.mark(s, w)
		x.readBack(s, w)
	}
}

// takeover, e: from the database's lease row.
func (x *system) acquire(s *State, w uint8) {
	n := *s
	if n.Acquired == x.Acquisitions {
		return
	}
	if n.Database.acquire(owner(w)) {
		n.Acquired++
		n.Taken++
		n.Workers[w] = Worker{At: ReadRecord, Epoch: n.Database.Epoch, Takes: 1, Take: n.Taken}
		x.flush(&n)
		x.emit(n, w, Note{Did: "acquires the lease"})
	}
}

// takeAnew: the worker drops what it was about to do, whatever became of it, and takes the partition once more.
func (x *system) takeAnew(s *State, w uint8) {
	if me := s.Workers[w]; me.At > WriteFence && me.Takes < x.Takes {
		n := *s
		n.Taken++
		n.Workers[w] = Worker{At: ReadRecord, Epoch: me.Epoch, Takes: me.Takes + 1, Take: n.Taken}
		x.emit(n, w, Note{Did: "takes the partition anew"})
	}
}

// takeover: (rec, S) = the last record. One of a higher epoch, or of another owner's equal one, ends the lease: the next
// one lies above it.
func (x *system) readRecord(s *State, w uint8) {
	x.read(s, func(rec Message, sequence uint8, did string) {
		n := *s
		me := &n.Workers[w]
		note := Note{Did: did, Record: rec, Sequence: sequence}
		mine := rec.Owner == owner(w) && rec.Epoch == me.Epoch
		switch {
		case mine && rec.Kind == Fence && (rec.Take == me.Take || x.FenceByEpoch):
			me.stand(rec, sequence)
			note.Then = "its own fence: stands"
		case rec.Epoch > me.Epoch, rec.Epoch == me.Epoch && rec.Kind != None && rec.Owner != owner(w):
			n.Database.raise(owner(w), me.Epoch, rec.Epoch)
			*me = Worker{}
			note.Then = "a newer owner: stops, the next lease lies above"
		case x.NoFence:
			me.stand(rec, sequence)
			note.Then = "stands"
		default:
			me.At, me.Known, me.Expect = WriteFence, rec, sequence
		}
		x.emit(n, w, note)
	})
}

// takeover: write fence{e, me, what rec says} expecting S.
func (x *system) writeFence(s *State, w uint8) {
	me := s.Workers[w]
	rec := Message{Kind: Fence, Epoch: me.Epoch, Owner: owner(w), Take: me.Take, Batch: me.Known.Batch, Progress: me.Known.Progress}
	written := rec
	if x.FenceWithoutCopy {
		written.Progress = Progress{}
	}
	again := func(me *Worker) { *me = Worker{At: ReadRecord, Epoch: me.Epoch, Takes: me.Takes, Take: me.Take} }
	x.write(s, w, Request{Record: written, Expect: me.Expect, Blind: x.BlindFence}, reaction{
		stored:  func(me *Worker, sequence uint8) { me.stand(rec, sequence) }, // proves that rec was the last record
		refused: again,
		unknown: again,
	})
}

// stand: the worker knows the last record.
func (me *Worker) stand(rec Message, sequence uint8) {
	me.At, me.Known, me.Expect, me.Done, me.Batch = Settle, rec, sequence, rec.Progress, rec.Batch
}

// takeover, at its end: mark what the record says, and go on behind the cursor that this leaves. What the database has
// passed beyond the record was parked: it is a hole of the next record.
func (x *system) settle(s *State, w uint8) {
	n := *s
	me := &n.Workers[w]
	m := Message{Kind: Mark, Epoch: me.Epoch, Owner: owner(w), Progress: me.Done}
	behind := n.Database.Delivered
	note := Note{Did: "settles", Record: m}
	if !n.Database.holds(owner(w), me.Epoch) {
		*me = Worker{}
		note.Then = "the lease is lost: stops"
		x.emit(n, w, note)
		return
	}
	n.Database.mark(m, x.Protocol)
	me.Done.Holes |= n.Database.Parked &^ upTo(me.Done.Upto)
	me.Done.Upto = max(me.Done.Upto, n.Database.Delivered)
	if me.At = Work; x.TrustReady {
		me.Done.Upto = behind
	}
	x.emit(n, w, note)
	x.hold(*s, w, Request{Record: m})
}

// batch begins the next one: of the rows behind the cursor some fail and become holes, and of the parked rows some are due.
// When they were read does not matter: rows above the cursor do not change, so reading ahead is reading now. A parked row
// that the last record does not name as a hole is stored: its mark is lost or late. One above the cursor was passed by
// somebody else.
func (x *system) batch(s *State, w uint8) {
	me := s.Workers[w]
	due := s.Database.Parked
	if !x.ParkedAhead {
		due &= upTo(me.Done.Upto)
	}
	if !x.TrustParked {
		due &^= me.Done.stored()
	}
	for upto := me.Done.Upto; upto <= min(x.Events, me.Done.Upto+x.Claim); upto++ {
		fresh := upTo(upto) &^ upTo(me.Done.Upto)
		(fresh & x.Fail).subsets(func(failed Set) {
			due.subsets(func(retried Set) { x.begin(s, w, upto, fresh, failed, retried) })
		})
	}
}

// begin puts a batch into the air, or, where everything fails, passes it.
func (x *system) begin(s *State, w, upto uint8, fresh, failed, retried Set) {
	if fresh|retried == 0 {
		return
	}
	n := *s
	me := &n.Workers[w]
	next := Progress{Upto: upto, Holes: me.Done.Holes&^retried | failed}
	publish := fresh&^failed | retried
	if publish == 0 {
		me.Done, me.Dirty = next, true
		x.emit(n, w, Note{Did: "fails", Events: failed})
		return
	}
	me.At, me.Next, me.Publish = SendBatch, next, publish
	me.Batch++
	x.emit(n, w, Note{Did: "makes a batch of", Events: publish})
}

// step: send batch{events, watermark{e, me, b, what is stored then}} expecting S, again and again until the answer is
// definite.
func (x *system) send(s *State, w uint8) {
	me := s.Workers[w]
	rec := Message{Kind: Watermark, Epoch: me.Epoch, Owner: owner(w), Batch: me.Batch, Progress: me.Next}
	if x.OwnHolesOnly {
		rec.Holes &^= me.Done.Holes
	}
	if x.NoHoles {
		rec.Holes = 0
	}
	x.write(s, w, Request{Record: rec, Events: me.Publish, Expect: me.Expect, Blind: x.NoExpectation}, reaction{
		stored:  func(me *Worker, sequence uint8) { me.committed(rec, sequence) },
		refused: func(me *Worker) { me.At = ReadBack },
		unknown: func(me *Worker) { // the same events again, expecting the same S
			if x.DecideByRead {
				me.At = ReadBack
			}
			if x.TrustUnknown {
				me.committed(rec, me.Expect)
			}
		},
	})
}

// committed: the batch in the air is in the stream.
func (me *Worker) committed(rec Message, sequence uint8) {
	me.Known, me.Expect = rec, sequence
	me.Done, me.Dirty = me.Next, true
	me.At, me.Next, me.Publish = Work, Progress{}, 0
}

// step, after a refusal: (rec, q) = the last record.
func (x *system) readBack(s *State, w uint8) {
	x.read(s, func(rec Message, q uint8, did string) {
		n := *s
		me := &n.Workers[w]
		note := Note{Did: did, Record: rec, Sequence: q}
		mine := rec.Owner == owner(w) && rec.Epoch == me.Epoch
		switch {
		case mine && rec.Kind == Watermark && rec.Batch == me.Batch && q > me.Expect:
			me.committed(rec, q)
			note.Then = "its own batch: stored"
		case rec.Epoch > me.Epoch || q > me.Expect && !mine:
			*me = Worker{}
			note.Then = "a newer owner: fenced, stops"
		case x.DecideByRead:
			*me = Worker{At: Work, Epoch: me.Epoch, Takes: me.Takes, Take: me.Take, Known: me.Known, Expect: q, Batch: me.Batch, Done: me.Done, Dirty: me.Dirty}
			note.Then = "not its batch: reads anew"
		default: // q = S or older: the read is stale and says nothing; read again
			return
		}
		x.emit(n, w, note)
	})
}

// mark says what is done, at any time after it. Nothing waits for it.
func (x *system) mark(s *State, w uint8) {
	me := s.Workers[w]
	m := Message{Kind: Mark, Epoch: me.Epoch, Owner: owner(w), Progress: me.Done}
	if x.MarkInTheAir && me.At == SendBatch {
		m.Progress = me.Next
	} else if !me.Dirty {
		return
	}
	n := *s
	note := Note{Did: "sends", Record: m, Then: "done"}
	if n.Workers[w].Dirty = false; !n.Database.mark(m, x.Protocol) {
		n.Workers[w] = Worker{}
		note.Then = "the lease is lost: stops"
	}
	x.emit(n, w, note)
	x.hold(*s, w, Request{Record: m})
}

// renew: a renewal that finds another owner or epoch ends the lease.
func (x *system) renew(s *State, w uint8) {
	if n := *s; n.Database.Expired && n.Database.holds(owner(w), s.Workers[w].Epoch) {
		n.Database.Expired = false
		x.flush(&n)
		x.emit(n, w, Note{Did: "renews its lease"})
	}
}

// stop: SIGKILL, or the worker no longer trusts its lease and drops everything. The lease row stays as it is.
func (x *system) stop(s *State, w uint8) {
	n := *s
	n.Workers[w] = Worker{}
	x.emit(n, w, Note{Did: "crashes or gives up"})
}

// free: a planned handover, with nothing in the air.
func (x *system) free(s *State, w uint8) {
	n := *s
	if n.Database.holds(owner(w), s.Workers[w].Epoch) {
		n.Database.Owner, n.Database.Expired = 0, false
		n.Workers[w] = Worker{}
		x.flush(&n)
		x.emit(n, w, Note{Did: "gives its lease back"})
	}
}

func owner(w uint8) uint8 { return w + 1 }
