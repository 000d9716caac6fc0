package walk

// The database's clock only ever says that a lease has run out, and may say so at any moment. Changes of the lease, takeovers, and what
// begins and ends a healing commit synchronously; marks and the healing's pages do not, see flush.

// acquire takes a free or expired lease.
func (d *Database) acquire(owner uint8) (ok bool) {
	if d.Owner != 0 && !d.Expired {
		return false
	}
	d.Owner, d.Expired = owner, false
	d.Epoch++
	return true
}

// leased compares owner and epoch with the lease's.
func (d *Database) leased(owner, epoch uint8) bool { return d.Owner == owner && d.Epoch == epoch }

// raise has the next lease lie above an epoch that the stream knows, and gives this one back.
func (d *Database) raise(owner, epoch, above uint8) {
	if d.leased(owner, epoch) {
		d.Owner, d.Expired, d.Epoch = 0, false, max(d.Epoch, above)
	}
}

// mark makes a mark, or finds it made. The row's fence is compared, and nothing else.
func (x *system) mark(d *Row, m Mark) (made bool) {
	switch {
	case d.Take == m.Take && d.Marks == m.Number:
	case d.Take == m.Take && d.Marks == m.Number+1 && !x.TakeAlone && !x.MarkComparesNothing:
		return true // it was made, and its answer was lost
	case x.MarkComparesNothing:
	case x.TakeAlone && d.Take == m.Take:
	default:
		return false
	}
	d.Ready &^= m.Events
	d.Parked = d.Parked&^m.Events | m.Failed&d.Ready
	d.Ready &^= m.Failed
	m.Events.Each(func(n uint8) { d.At[n-1] = m.At[n-1] })
	if d.Marks = m.Number + 1; m.Upto >= d.Position {
		d.Position, d.Last = m.Upto, m.Last
	}
	return true
}

// flush: synchronous commits are durable, and with them all earlier ones. A standby that lags behind waits for
// nothing.
func (x *system) flush(n *State) {
	if !x.Lagging {
		n.Database.Durable = n.Database.Row
	}
}

// time: the lease runs out.
func (x *system) time(s *State) {
	if n := *s; n.Database.Owner != 0 && !n.Database.Expired {
		n.Database.Expired = true
		x.emit(n, Note{Did: "the lease runs out"})
	}
}

// crash: commits become durable in their order, a while later. A crash of the primary, or a failover, forgets the others.
// Nobody notices; marks that are under way may arrive behind it.
func (x *system) crash(s *State) {
	if !x.Crashes || s.Database.Durable == s.Database.Row {
		return
	}
	n := *s
	n.Database.Durable = n.Database.Row
	x.emit(n, Note{Did: "what is committed becomes durable"})
	n = *s
	n.Database.Row = n.Database.Durable
	if x.Lagging {
		n.Database.Expired = false
	}
	x.emit(n, Note{Did: "the database crashes"})
}
