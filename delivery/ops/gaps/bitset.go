package gaps

import "math/bits"

// bitset is a set of numbers at and above a base.
type bitset struct {
	base  uint64
	words []uint64
}

func (b *bitset) set(n uint64) {
	if n < b.base {
		return
	}
	at := (n - b.base) / 64
	if at >= uint64(len(b.words)) {
		b.words = append(b.words, make([]uint64, max(1024, int(at)+1-len(b.words)+len(b.words)/4))...) // memory bounds it
	}
	b.words[at] |= 1 << ((n - b.base) % 64)
}

func (b *bitset) clear(n uint64) {
	if b.has(n) {
		b.words[(n-b.base)/64] &^= 1 << ((n - b.base) % 64)
	}
}

// after returns the first number of the set at or above n.
func (b *bitset) after(n uint64) (next uint64, found bool) {
	n = max(n, b.base)
	for at := (n - b.base) / 64; at < uint64(len(b.words)); at++ {
		word := b.words[at]
		if at == (n-b.base)/64 {
			word &^= 1<<((n-b.base)%64) - 1
		}
		if word != 0 {
			return b.base + at*64 + uint64(bits.TrailingZeros64(word)), true // not negative
		}
	}
	return 0, false
}

func (b *bitset) has(n uint64) bool {
	if n < b.base {
		return false
	}
	at := (n - b.base) / 64
	return at < uint64(len(b.words)) && b.words[at]&(1<<((n-b.base)%64)) != 0
}
