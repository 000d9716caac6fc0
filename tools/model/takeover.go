package model

import "github.com/postrider/postrider/tools/model/search"

// takeover, e: from the database's lease row.
func (x *system) acquire(s *State, w uint8) {
	n := *s
	if n.Acquired == x.Acquisitions || !n.Database.acquire(owner(w)) {
		return
	}
	n.Acquired++
	n.Taken++
	n.Workers[w] = Worker{At: ReadRecord, Epoch: n.Database.Epoch, Takes: 1, Take: n.Taken, Marked: n.Database.Progress}
	if x.WalkFirst {
		n.Workers[w].Pending = n.Stream.named(n.Database.Fence, n.Stream.Len)
	}
	x.flush(&n)
	x.emit(n, Note{Who: owner(w), Did: "acquires the lease"})
}

// takeAnew: the worker drops its work, whatever its outcome, and takes the partition once more.
func (x *system) takeAnew(s *State, w uint8) {
	if me := s.Workers[w]; me.At > WriteFence && me.Takes < x.Takes {
		n := *s
		n.Taken++
		n.Workers[w] = Worker{At: ReadRecord, Epoch: me.Epoch, Takes: me.Takes + 1, Take: n.Taken, Marked: me.Marked}
		x.emit(n, Note{Who: owner(w), Did: "takes the partition anew"})
	}
}

// takeover: (rec, S) = the last record. One of a higher epoch, or of another owner's equal one, ends the lease: the next
// one lies above it.
func (x *system) readRecord(s *State, w uint8) {
	x.read(s, func(rec Message, sequence uint8, did string) {
		n := *s
		me := &n.Workers[w]
		note := Note{Who: owner(w), Did: did, Record: rec, Sequence: sequence}
		mine := rec.Owner == owner(w) && rec.Epoch == me.Epoch
		switch {
		case mine && rec.Kind == Fence && (rec.Take == me.Take || x.FenceByEpoch):
			me.After = rec.After
			x.stand(me, sequence)
			note.Then = "its own fence: stands"
		case rec.Epoch > me.Epoch, rec.Epoch == me.Epoch && rec.Owner != owner(w) && !x.EqualEpoch:
			n.Database.raise(owner(w), me.Epoch, rec.Epoch)
			*me = Worker{}
			note.Then = "a newer owner: stops, the next lease lies above"
		case x.NoFence:
			x.stand(me, sequence)
			note.Then = "stands"
		default:
			me.At, me.Expect, me.After = WriteFence, sequence, rec.After
			if rec.Kind == Announcement {
				me.After = sequence
			}
			if x.MeetFirst && me.After > 0 {
				me.Sent = s.Stream.met(me.After, s.Stream.Len)
			}
		}
		x.emit(n, note)
	})
}

// takeover: write fence{e, me} expecting S.
func (x *system) writeFence(s *State, w uint8) {
	me := s.Workers[w]
	fence := Message{Kind: Fence, Epoch: me.Epoch, Owner: owner(w), Take: me.Take, After: me.After}
	if x.FenceForgets {
		fence.After = 0
	}
	x.send(s, w, Request{Record: fence, Expect: me.Expect, Blind: x.BlindFence}, reaction{
		stored:  x.stand, // proves that the record at S was the last one
		refused: again,
		unknown: again,
	})
}

func again(me *Worker) { me.At, me.Expect, me.After, me.Sent = ReadRecord, 0, 0, 0 }

// stand: the worker knows the last record's position, and that nothing sent before can be stored behind it.
func (x *system) stand(me *Worker, sequence uint8) {
	if me.At, me.Expect = WalkRecords, sequence; me.After > 0 && !x.SkipAnnounced {
		me.At = MeetAnnounced
	}
}

// takeover: of announced messages only those before the fence can ever be stored. A record closes them.
func (x *system) meetAnnounced(s *State, w uint8) {
	me := s.Workers[w]
	found := s.Stream.met(me.After, me.Expect)
	if x.MeetFirst {
		found = me.Sent
	}
	rec := Message{Kind: Watermark, Epoch: me.Epoch, Owner: owner(w), Events: found}
	x.send(s, w, Request{Record: rec, Expect: me.Expect}, reaction{
		stored: func(me *Worker, sequence uint8) {
			me.At, me.Expect, me.After, me.Sent = WalkRecords, sequence, 0, 0
		},
		refused: again,
		unknown: again,
	})
}

// takeover, at its end: events that records behind F name are published and not known to be marked. With a cursor, others
// below the highest were passed, and may have to be parked. A read that does not show the fence is stale.
func (x *system) walkRecords(s *State, w uint8) {
	me := s.Workers[w]
	from := s.Database.Fence
	switch {
	case x.WalkFromMemory:
		from = me.Marked.Fence
	case x.LastRecordOnly:
		for at := from; at < me.Expect; at++ {
			if k := s.Stream.Log[at].Kind; k == Watermark || k == Batch {
				from = at
			}
		}
	}
	x.walked(s, w, from, me.Expect)
	for upto := from; x.WalkToAnyEnd && upto < me.Expect; upto++ {
		x.walked(s, w, from, upto)
	}
}

func (x *system) walked(s *State, w, from, upto uint8) {
	n := *s
	me := &n.Workers[w]
	if !x.WalkFirst {
		me.Pending = n.Stream.named(from, upto)
		for at := from; x.TrustRecords && at < upto; at++ {
			if m := n.Stream.Log[at]; m.Kind == Batch {
				me.Pending |= m.Events
			}
		}
	}
	if x.Cursor && !x.WalkUnparked {
		me.Passed = search.UpTo(me.Pending.Top()) &^ me.Pending
	}
	me.Retried = me.Pending & n.Database.Parked
	me.Marked = n.Database.Progress
	if me.At = MarkRows; me.Pending == 0 {
		me.At = ClaimRows
	}
	x.emit(n, Note{Who: owner(w), Did: "walks the records, which name", Record: Message{Kind: Event, Events: me.Pending}})
}
