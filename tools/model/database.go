package model

import "github.com/postrider/postrider/tools/model/search"

// The database's clock only ever says that a lease has run out, and may say so at any moment. Every write under a lease
// is a compare-and-set on owner and epoch. Changes of the lease row commit synchronously, marks do not, see flush.

// acquire takes a free or expired lease.
func (d *Database) acquire(owner uint8) (ok bool) {
	if d.Owner != 0 && !d.Expired {
		return false
	}
	d.Owner, d.Expired = owner, false
	d.Epoch++
	return true
}

// holds reports whether that is the lease.
func (d *Database) holds(owner, epoch uint8) bool { return d.Owner == owner && d.Epoch == epoch }

// raise has the next lease lie above an epoch that the stream knows, and gives this one back.
func (d *Database) raise(owner, epoch, above uint8) {
	if d.holds(owner, epoch) {
		d.Owner, d.Expired, d.Epoch = 0, false, max(d.Epoch, above)
	}
}

// mark settles the request's events, and moves F with them.
func (x *system) mark(d *Database, m Message) (ok bool) {
	mine := d.holds(m.Owner, m.Epoch)
	if !mine && (!x.MarkWithoutEpoch || d.Owner != m.Owner) || x.behind(d.Partition, m.From) {
		return false
	}
	before := d.Partition
	if x.Cursor {
		x.move(&d.Partition, m)
	} else {
		x.remove(&d.Partition, m)
	}
	if d.Fence = max(d.Fence, m.Upto); d.Parked&^before.Parked != 0 {
		d.Parks++
	}
	d.Trespassed = d.Trespassed || !mine && before != d.Partition
	return true
}

// waiting returns the ready rows that count as not published. Without a cursor, Delivered stays 0.
func (p Partition) waiting() Set {
	return p.Ready &^ search.UpTo(p.Delivered)
}

// behind reports whether the partition lacks a mark that somebody knows.
func (x *system) behind(p Partition, known Progress) bool {
	return p.Fence < known.Fence || p.Parks < known.Parks && !x.CompareFence
}

// remove deletes the published rows and parks the failed ones, wherever they lie.
func (x *system) remove(p *Partition, m Message) {
	ready, parked := m.Events, m.Events
	if x.MarkWhereClaimed {
		ready, parked = m.Events&^m.Retried, m.Retried
	}
	p.Ready &^= ready
	p.Parked = p.Parked&^parked | m.Passed&p.Ready
	p.Ready &^= m.Passed
}

// move moves the cursor, and parks the failed rows that it moves over. Nothing is deleted.
func (x *system) move(p *Partition, m Message) {
	over := search.UpTo(m.top()) &^ search.UpTo(p.Delivered)
	if x.ParkAgain {
		over = search.UpTo(m.top())
	}
	p.Parked &^= m.Events
	if !x.PassUnparked {
		p.Parked |= m.Passed & over
	}
	p.Delivered = max(p.Delivered, m.top())
}

// reclaim: rows behind the cursor go, whoever does it and whenever.
func (x *system) reclaim(s *State) {
	if !x.Reclaim {
		return
	}
	n := *s
	upto := n.Database.Delivered
	if x.ReclaimAhead {
		for _, me := range s.Workers {
			upto = max(upto, (me.Pending | me.Passed).Top())
		}
	}
	if n.Database.Ready &^= search.UpTo(upto); n.Database.Ready != s.Database.Ready {
		x.emit(n, Note{Did: "rows behind the cursor are reclaimed"})
	}
}

// flush: synchronous commits are durable, and with them all earlier ones. A standby that lags behind waits for
// nothing.
func (x *system) flush(n *State) {
	if !x.Lagging {
		n.Database.Durable = n.Database.Partition
	}
}

// time: the lease runs out.
func (x *system) time(s *State) {
	if n := *s; n.Database.Owner != 0 && !n.Database.Expired {
		n.Database.Expired = true
		x.emit(n, Note{Did: "the lease runs out"})
	}
}

// crash: commits become durable in their order, a while later. A crash of the primary, or a failover, forgets the others,
// and ends every session with its marks under way. A worker notices, unless it compares instead.
// Before it reads F there is nothing to notice.
func (x *system) crash(s *State) {
	if !x.Crashes {
		return
	}
	n := *s
	if n.Database.Durable = n.Database.Partition; n != *s {
		x.emit(n, Note{Did: "what is committed becomes durable"})
	}
	n = *s
	n.Database.Partition = n.Database.Durable
	if x.Lagging {
		n.Database.Expired = false
	}
	for w := range n.Workers {
		me := &n.Workers[w]
		me.Stale = me.Stale || me.At > WalkRecords && !x.GoOnAfterCrash && !x.Compare && (!x.MarkThroughCrash || me.At != MarkRows)
	}
	for place := maxLate - 1; place >= 0; place-- {
		if n.Late[place].Record.Kind == Mark && !x.MarkOutlivesSession && !x.Compare {
			search.Release(n.Late[:], place)
		}
	}
	x.emit(n, Note{Did: "the database crashes"})
}
