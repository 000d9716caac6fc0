package walk

// takeover, e: from the database's lease row.
func (x *system) acquire(s *State, w uint8) {
	n := *s
	if n.Acquired == x.Acquisitions || !n.Database.acquire(owner(w)) {
		return
	}
	n.Acquired++
	n.Workers[w] = Worker{At: TakeRow, Epoch: n.Database.Epoch, Takes: 1}
	x.flush(&n)
	x.emit(n, Note{Who: owner(w), Did: "acquires the lease"})
}

// takeAnew: the worker drops its work, whatever its outcome, and takes the partition once more.
func (x *system) takeAnew(s *State, w uint8) {
	if me := s.Workers[w]; me.At > TakeRow && me.At != Stand && me.Takes < x.Takes {
		x.retake(*s, w, Note{Did: "takes the partition anew"})
	}
}

// retake: it must do so. Where the model has no takeover left, the worker ends.
func (x *system) retake(n State, w uint8, note Note) {
	x.again(&n.Workers[w])
	note.Who = owner(w)
	x.emit(n, note)
}

func (x *system) again(me *Worker) {
	if me.Takes == x.Takes {
		*me = Worker{}
		return
	}
	*me = Worker{At: TakeRow, Epoch: me.Epoch, Takes: me.Takes + 1}
}

// takeover: write a new name into the row. From then on no mark and no claim of an earlier takeover is made.
func (x *system) takeRow(s *State, w uint8) {
	n := *s
	me, d := &n.Workers[w], &n.Database
	if !d.leased(owner(w), me.Epoch) {
		*me = Worker{}
		x.emit(n, Note{Who: owner(w), Did: "takes the row", Then: "the lease is lost: stops"})
		return
	}
	n.Taken++
	if d.Take, d.Marks = n.Taken, 0; x.SameTake {
		d.Take = me.Epoch
	}
	x.flush(&n)
	me.At, me.Take, me.From, me.Known = ReadRecord, d.Take, d.Position, d.Last
	if d.Stands {
		me.At = Stand
	}
	if x.WalkFirst {
		me.Pending, me.Where = n.Stream.found(me.From, n.Stream.Len)
	}
	x.emit(n, Note{Who: owner(w), Did: "takes the row"})
}

// takeover: (rec, K) = the last record. One of a higher epoch, or of another owner's equal one, ends the lease: the next
// one lies above it.
func (x *system) readRecord(s *State, w uint8) {
	x.read(s, func(rec Message, sequence uint8, did string) {
		n := *s
		me := &n.Workers[w]
		note := Note{Who: owner(w), Did: did, Record: rec, Sequence: sequence}
		mine := rec.Owner == owner(w) && rec.Epoch == me.Epoch
		switch {
		case mine && (rec.Take == me.Take || x.RecordByEpoch), x.NoRecord && sequence > 0:
			me.fence(sequence, rec)
			me.Life = n.Stream.Life
			note.Then = "its own record"
		case rec.Epoch > me.Epoch, rec.Epoch == me.Epoch && rec.Owner != owner(w) && !x.EqualEpoch:
			n.Database.raise(owner(w), me.Epoch, rec.Epoch)
			*me = Worker{}
			note.Then = "a newer owner: stops, the next lease lies above"
		default:
			me.At, me.Expect = WriteRecord, sequence
		}
		x.emit(n, note)
	})
}

// takeover: write record{e, me, take} expecting K.
func (x *system) writeRecord(s *State, w uint8) {
	me := s.Workers[w]
	again := func(n *State) { n.Workers[w].At, n.Workers[w].Expect = ReadRecord, 0 }
	own := me.signs(owner(w))
	x.send(s, Request{By: own, Life: s.Stream.Life, Expect: me.Expect, Blind: x.BlindRecord}, reaction{
		stored: func(n *State, sequence uint8) {
			n.Workers[w].fence(sequence, own)
			n.Workers[w].Life = n.Stream.Life
		},
		refused: again,
		unknown: again,
	})
}

// signs returns the record that the worker writes.
func (me *Worker) signs(by uint8) Message { return Message{Epoch: me.Epoch, Owner: by, Take: me.Take} }

// fence: nothing that was sent before can be stored any more.
func (me *Worker) fence(sequence uint8, record Message) {
	me.At, me.Expect, me.Upto, me.Last = WalkStream, sequence, sequence, record
}

// takeover, at its end: events between the row's position and the own record are published. A stream that lacks the message at the
// position has lost messages: it was made anew, or restored.
func (x *system) walkStream(s *State, w uint8) {
	me := s.Workers[w]
	if !s.Stream.holds(me.Expect, me.Last) {
		x.retake(*s, w, Note{Did: "does not meet its record"})
		return
	}
	if !s.Stream.holds(me.From, me.Known) && !x.PositionByNumber || me.From >= me.Expect {
		x.report(s, w)
		return
	}
	x.walked(*s, w, me.Expect)
	for upto := me.From; x.WalkToAnyEnd && upto < me.Expect; upto++ {
		x.walked(*s, w, upto)
	}
}

func (x *system) walked(n State, w, upto uint8) {
	me := &n.Workers[w]
	if !x.WalkFirst && !x.NoWalk {
		me.Pending, me.Where = n.Stream.found(me.From, upto)
	}
	me.Retried = me.Pending & n.Database.Parked
	me.From, me.Known = 0, Message{}
	if me.At = MarkRows; me.Pending == 0 {
		me.At = ClaimRows
	}
	x.emit(n, Note{Who: owner(w), Did: "walks", Events: me.Pending})
}
