package model

// The database's clock only ever says that a lease has run out, and may say so at any moment. Every write under a lease
// is a compare-and-set on owner and epoch. Changes of the lease row commit synchronously, which flushes whatever was
// committed before; marks commit asynchronously.

// acquire takes a free or expired lease and returns its new epoch.
func (d *Database) acquire(owner uint8) (epoch uint8, ok bool) {
	if d.Owner != 0 && !d.Expired {
		return 0, false
	}
	d.Owner, d.Expired = owner, false
	d.Epoch++
	d.flush()
	return d.Epoch, true
}

// renew extends a lease, expired or not, that nobody else has taken.
func (d *Database) renew(owner, epoch uint8) (ok bool) {
	if d.Owner != owner || d.Epoch != epoch {
		return false
	}
	d.Expired = false
	d.flush()
	return true
}

// free gives a lease back.
func (d *Database) free(owner, epoch uint8) (ok bool) {
	if d.Owner != owner || d.Epoch != epoch {
		return false
	}
	d.Owner, d.Expired = 0, false
	d.flush()
	return true
}

// mark deletes the rows of the events that the request names.
func (d *Database) mark(m Message, p Protocol) (ok bool) {
	mine := d.Owner == m.Owner && d.Epoch == m.Epoch
	if ok = mine || p.MarkWithoutEpoch && d.Owner == m.Owner; !ok {
		return false
	}
	d.Trespassed = d.Trespassed || !mine && d.Rows&m.Events != 0
	d.Rows &^= m.Events
	return true
}

// flush makes durable whatever is committed.
func (d *Database) flush() { d.Durable = d.Rows }

// crash forgets what was not flushed.
func (d *Database) crash() { d.Rows = d.Durable }
