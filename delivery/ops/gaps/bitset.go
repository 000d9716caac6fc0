package gaps

import (
	"maps"
	"math/bits"
	"slices"
)

const pageBits = 1 << 16

// bitset is a set of sequences, in pages: they are dense, except between two parts of the events.
type bitset map[uint64]*[pageBits / 64]uint64

func (b bitset) set(n uint64) {
	page := b[n/pageBits]
	if page == nil {
		page = new([pageBits / 64]uint64)
		b[n/pageBits] = page
	}
	page[n%pageBits/64] |= 1 << (n % 64)
}

func (b bitset) clear(n uint64) {
	if page := b[n/pageBits]; page != nil {
		page[n%pageBits/64] &^= 1 << (n % 64)
	}
}

func (b bitset) has(n uint64) bool {
	page := b[n/pageBits]
	return page != nil && page[n%pageBits/64]&(1<<(n%64)) != 0
}

// all goes through the set, from its lowest number.
func (b bitset) all(yield func(n uint64) bool) {
	for _, key := range slices.Sorted(maps.Keys(b)) {
		for at, word := range b[key] {
			for ; word != 0; word &= word - 1 {
				if !yield(key*pageBits + uint64(at)*64 + uint64(bits.TrailingZeros64(word))) { // not negative
					return
				}
			}
		}
	}
}
