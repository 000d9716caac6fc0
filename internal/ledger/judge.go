package ledger

import "fmt"

// judgeOrderLocked judges the first reception of an event and moves its stream's and its partition's place forward, never back: one event
// out of place is one fault, and its neighbours are judged by the highest place.
func (c *Checker) judgeOrderLocked(m *Message, at *place) {
	inStream := c.judgeStreamLocked(m, at)
	inPartition := c.judgePartitionLocked(m)
	if !inStream || !inPartition {
		c.reordered++
	}
}

func (c *Checker) judgeStreamLocked(m *Message, at *place) (inOrder bool) {
	inOrder = true
	switch {
	case m.Sequence <= at.sequence:
		inOrder = false
		c.faultLocked(KindReorderedStream, m, "came after sequence %d (version %d) of its stream%s",
			at.sequence, at.version, storedNote(m.StreamSequence, at.streamSeq))
	case m.StreamVersion <= at.version:
		inOrder = false
		c.faultLocked(KindReorderedStream, m, "came after version %d of its stream, which has the lower sequence %d",
			at.version, at.sequence)
	case c.config.ContiguousVersions && at.version > 0 && m.StreamVersion != at.version+1:
		c.faultLocked(KindVersionGap, m, "came right after version %d of its stream", at.version)
	}
	if m.Sequence > at.sequence {
		at.sequence, at.streamSeq = m.Sequence, m.StreamSequence
	}
	at.version = max(at.version, m.StreamVersion)
	return inOrder
}

func (c *Checker) judgePartitionLocked(m *Message) (inOrder bool) {
	if m.Partition < 0 {
		return true // not from ParseMessage; nothing to keep a place for
	}
	at := c.partitionLocked(m.Partition)
	if m.Sequence > at.sequence || c.config.AllowMoved && at.another(m) {
		at.sequence, at.stored, at.generation, at.epochOf = m.Sequence, m.StreamSequence, m.Generation, m.Epoch
		return true
	}
	if len(c.parked) > 0 && c.parked[m.Stream] {
		return true
	}
	c.byPartition++
	if c.config.Ordering != ByPartition {
		if tell := c.config.LateInPartition; tell != nil {
			tell(c.faultOf(KindReorderedPartition, m, "came after sequence %d of its partition%s",
				at.sequence, storedNote(m.StreamSequence, at.stored)))
		}
		return true
	}
	c.faultLocked(KindReorderedPartition, m, "came after sequence %d of its partition%s",
		at.sequence, storedNote(m.StreamSequence, at.stored))
	return false
}

// another reports whether the message is of the partition that a resize made under this number: its publisher has another lease.
func (at *partitionPlace) another(m *Message) bool {
	return m.Generation > at.generation && (m.Epoch > at.epochOf || m.Epoch == 0)
}

// judgeEpochLocked judges copies too: it is meant for a stale owner's.
func (c *Checker) judgeEpochLocked(m *Message) {
	if m.Epoch == 0 || m.Partition < 0 {
		return
	}
	at := c.partitionLocked(m.Partition)
	if m.StreamSequence != 0 && m.StreamSequence <= at.epochStored {
		return // delivered again or late by the consumer: not in stored order
	}
	at.epochStored = m.StreamSequence
	if m.Epoch >= at.epoch {
		at.epoch, at.sequenceAtEpoch = m.Epoch, m.Sequence
		return
	}
	c.faultLocked(KindEpoch, m, "epoch %d is stored after epoch %d (sequence %d) of its partition",
		m.Epoch, at.epoch, at.sequenceAtEpoch)
}

// againLocked judges a message whose event was received before.
func (c *Checker) againLocked(m *Message, p prior) {
	if !p.seen && !p.newerSeen {
		c.replayed++
		return
	}
	c.judgeCopyLocked(m, p)
	switch {
	case p.seen && c.storedOnceLocked(m, p):
		c.redelivered++
	case !p.seen:
		c.duplicateLocked(m, "generation %d was published after a newer one", m.Generation)
	case p.exact && p.streamSeq != 0:
		c.duplicateLocked(m, "first copy is stored at %d", p.streamSeq)
	default:
		c.duplicateLocked(m, "received before")
	}
}

// storedOnceLocked reports whether the message and its first copy are the same stored message. Where the first copy's place is forgotten, a
// new copy is known by lying above everything received so far.
func (c *Checker) storedOnceLocked(m *Message, p prior) bool {
	switch {
	case m.StreamSequence == 0:
		return false
	case p.exact:
		return p.streamSeq == m.StreamSequence
	default:
		return m.StreamSequence <= c.highestStored
	}
}

// judgeCopyLocked compares a copy with the first one where no ledger did it.
func (c *Checker) judgeCopyLocked(m *Message, p prior) {
	if !p.exact || c.config.Ledger != nil {
		return
	}
	switch {
	case p.eventID != m.EventID:
		c.faultLocked(KindAltered, m, "event %s was received under the same sequence", p.eventID)
	case p.bodyHash != m.BodyHash:
		c.faultLocked(KindAltered, m, "body hash %s, first copy's %s", hex(m.BodyHash), hex(p.bodyHash))
	}
}

func storedNote(late, early uint64) string {
	switch {
	case late == 0 || early == 0:
		return ""
	case late < early:
		return fmt.Sprintf(", but is stored before it (at %d, that at %d): the consumer delivered it late", late, early)
	default:
		return fmt.Sprintf(" (that is stored at %d)", early)
	}
}
