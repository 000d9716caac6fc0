package model

// step, in the place of a batch: send announcement{e, me, events} expecting S.
func (x *system) announce(s *State, w uint8) {
	if !x.Singles {
		return
	}
	me := s.Workers[w]
	rec := Message{Kind: Announcement, Epoch: me.Epoch, Owner: owner(w), Events: me.Publish}
	x.send(s, w, Request{Record: rec, Expect: me.Expect}, reaction{
		stored:  func(me *Worker, sequence uint8) { me.At, me.Expect, me.Sent = SendSingle, sequence, 0 },
		refused: lost,
		unknown: lost,
	})
}

// lost: nothing is sent again that may be stored.
func lost(me *Worker) { me.At = Lost }

// step: send the next event expecting S, the announcement's position.
func (x *system) sendSingle(s *State, w uint8) {
	me := s.Workers[w]
	next := (me.Publish &^ me.Sent).First(1)
	then := reaction{
		stored: func(me *Worker, _ uint8) {
			if me.Sent |= next; me.Sent != me.Publish {
				return
			}
			if me.At = CloseSingles; x.NoClosing {
				x.closed(me, me.Expect)
			}
		},
		refused: lost,
		unknown: lost,
	}
	if x.SendAgain {
		then.unknown = func(*Worker) {}
	}
	single := Message{Epoch: me.Epoch, Owner: owner(w)}
	x.send(s, w, Request{Record: single, Events: next, Expect: me.Expect, Blind: x.SingleWithoutExpectation}, then)
}

// step: send watermark{e, me, events} expecting S.
func (x *system) closeSingles(s *State, w uint8) {
	me := s.Workers[w]
	rec := Message{Kind: Watermark, Epoch: me.Epoch, Owner: owner(w), Events: me.Sent}
	x.send(s, w, Request{Record: rec, Expect: me.Expect}, reaction{stored: x.closed, refused: lost, unknown: lost})
}

// closed: all announced events are in the stream, and named behind.
func (x *system) closed(me *Worker, sequence uint8) {
	me.Sent = 0
	x.stored(me, sequence)
}
