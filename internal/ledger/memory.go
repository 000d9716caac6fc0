package ledger

import "github.com/google/uuid"

// prior is a memory's answer about earlier receptions of a message's event.
type prior struct {
	seen      bool // at this very generation
	lowerSeen bool // at an older generation only
	newerSeen bool // at a newer generation
	// The first copy of this generation, where the memory still has it.
	exact     bool
	streamSeq uint64
	bodyHash  uint64
	eventID   uuid.UUID
}

// ever reports whether the event was received before at any generation.
func (p prior) ever() bool { return p.seen || p.lowerSeen || p.newerSeen }

// tailMemory remembers receptions without a ledger: one bit per generation
// and sequence number, and a direct-mapped cache of the latest identities.
type tailMemory struct {
	generations map[int32]*bitmap
	recent      []identity
}

type identity struct {
	sequence   int64
	streamSeq  uint64
	bodyHash   uint64
	eventID    uuid.UUID
	generation int32
}

const recentIdentities = 1 << 16

func newTailMemory() *tailMemory {
	return &tailMemory{
		generations: map[int32]*bitmap{0: newBitmap()},
		recent:      make([]identity, recentIdentities),
	}
}

// note remembers the message and returns the state before it. positionPassed, whether the stream has gone past the message's sequence,
// decides for sequences that the bits have forgotten.
func (t *tailMemory) note(m *Message, positionPassed bool) prior {
	var p prior
	bits := t.generations[m.Generation]
	if bits == nil {
		bits = newBitmap()
		t.generations[m.Generation] = bits
	}
	seq := uint64(m.Sequence)
	if seq < bits.horizon {
		p.seen = positionPassed
	} else {
		p.seen = bits.set(seq)
	}
	if len(t.generations) > 1 {
		for generation, other := range t.generations {
			if generation != m.Generation && other.has(seq) {
				p.lowerSeen = p.lowerSeen || generation < m.Generation
				p.newerSeen = p.newerSeen || generation > m.Generation
			}
		}
	}
	slot := &t.recent[seq%recentIdentities]
	if p.seen {
		if slot.sequence == m.Sequence && slot.generation == m.Generation {
			p.exact, p.streamSeq, p.bodyHash, p.eventID = true, slot.streamSeq, slot.bodyHash, slot.eventID
		}
		return p
	}
	*slot = identity{m.Sequence, m.StreamSequence, m.BodyHash, m.EventID, m.Generation}
	return p
}

const (
	pageBits  = 1 << 16 // 8 KiB
	pageWords = pageBits / 64
	pagesMax  = 1 << 16 // 512 MiB, 4.3 billion sequence numbers
)

// bitmap is a set of sequence numbers in pages. Sequences are drawn from one
// identity column, so that they are dense and neighbours share a page.
type bitmap struct {
	pages   map[uint64]*[pageWords]uint64
	last    *[pageWords]uint64 // the page used last
	lastKey uint64
	limit   int
	horizon uint64 // sequences below were forgotten
}

func newBitmap() *bitmap {
	return &bitmap{pages: make(map[uint64]*[pageWords]uint64), limit: pagesMax}
}

// set adds a number at or above the horizon and reports whether it was already there.
func (b *bitmap) set(n uint64) bool {
	page := b.page(n / pageBits)
	word, bit := n%pageBits/64, uint64(1)<<(n%64)
	was := page[word]&bit != 0
	page[word] |= bit
	return was
}

func (b *bitmap) has(n uint64) bool {
	page := b.pages[n/pageBits]
	return page != nil && page[n%pageBits/64]&(1<<(n%64)) != 0
}

func (b *bitmap) page(key uint64) *[pageWords]uint64 {
	if b.last != nil && b.lastKey == key {
		return b.last
	}
	page := b.pages[key]
	if page == nil {
		page = new([pageWords]uint64)
		b.pages[key] = page
		if len(b.pages) > b.limit {
			b.forgetLowest()
		}
	}
	b.last, b.lastKey = page, key
	return page
}

func (b *bitmap) forgetLowest() {
	lowest := ^uint64(0)
	for key := range b.pages {
		lowest = min(lowest, key)
	}
	delete(b.pages, lowest)
	b.horizon = (lowest + 1) * pageBits
}

// ledgerMemory remembers receptions exactly, by the ledger's record numbers.
type ledgerMemory struct {
	first []reception
	// later holds receptions at further generations of the same event.
	later map[laterKey]reception
}

type reception struct {
	streamSeq  uint64
	bodyHash   uint64
	generation int32
	highest    int32 // of all generations received; kept in first only
	received   bool
}

type laterKey struct {
	index      int
	generation int32
}

func (l *ledgerMemory) received(index int) bool {
	return index < len(l.first) && l.first[index].received
}

func (l *ledgerMemory) note(m *Message, index int) prior {
	for len(l.first) <= index {
		l.first = append(l.first, reception{})
	}
	now := reception{m.StreamSequence, m.BodyHash, m.Generation, m.Generation, true}
	first := &l.first[index]
	if !first.received {
		*first = now
		return prior{}
	}
	copied, seen := *first, first.generation == m.Generation
	if !seen {
		copied, seen = l.later[laterKey{index, m.Generation}]
	}
	p := prior{
		seen: seen, exact: seen,
		streamSeq: copied.streamSeq, bodyHash: copied.bodyHash, eventID: m.EventID,
		lowerSeen: first.highest < m.Generation, newerSeen: first.highest > m.Generation,
	}
	if !seen {
		if l.later == nil {
			l.later = make(map[laterKey]reception)
		}
		l.later[laterKey{index, m.Generation}] = now
		first.highest = max(first.highest, m.Generation)
	}
	return p
}
