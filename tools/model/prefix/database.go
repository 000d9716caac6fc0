package prefix

// The database's clock only ever says that a lease has run out, and may say so at any moment. Every write under a lease
// is a compare-and-set on owner and epoch.

// acquire takes a free or expired lease.
func (d *Database) acquire(owner uint8) (ok bool) {
	if d.Owner != 0 && !d.Expired {
		return false
	}
	d.Owner, d.Expired = owner, false
	d.Epoch++
	return true
}

// holds tells whether that is the lease.
func (d *Database) holds(owner, epoch uint8) bool { return d.Owner == owner && d.Epoch == epoch }

// raise has the next lease lie above an epoch that the stream knows, and gives this one back.
func (d *Database) raise(owner, epoch, above uint8) {
	if d.holds(owner, epoch) {
		d.Owner, d.Expired, d.Epoch = 0, false, max(d.Epoch, above)
	}
}

// mark moves the cursor behind what is stored, parks the holes that it passes, and drops parked rows that are stored.
func (d *Database) mark(m Message, p Protocol) (ok bool) {
	mine := d.holds(m.Owner, m.Epoch)
	if !mine && !p.MarkWithoutOwner {
		return false
	}
	before := d.Partition
	passed := upTo(m.Upto) &^ upTo(d.Delivered)
	if p.ParkAgain {
		passed = upTo(m.Upto)
	}
	d.Parked &^= m.stored()
	if !p.PassHoles {
		d.Parked |= m.Holes & passed
	}
	d.Delivered = max(d.Delivered, m.Upto)
	d.Trespassed = d.Trespassed || !mine && before != d.Partition
	return true
}

// reclaim deletes the rows that the cursor has passed.
func (d *Database) reclaim(upto uint8) { d.Ready &^= upTo(upto) }
