package search

import (
	"fmt"
	"strings"
)

// Set holds up to eight events; event n, counted from 1, is bit n-1. Odd and even events are two streams.
type Set uint8

// UpTo returns the events 1 to n.
func UpTo(n uint8) Set { return 1<<n - 1 }

// Only returns the set of one event.
func Only(n uint8) Set { return 1 << (n - 1) }

// Size returns the number of events.
func (s Set) Size() (n uint8) {
	for ; s != 0; s &= s - 1 {
		n++
	}
	return n
}

// First returns the n lowest events.
func (s Set) First(n uint8) Set {
	rest := s
	for range n {
		rest &= rest - 1
	}
	return s &^ rest
}

// Top returns the highest event.
func (s Set) Top() (n uint8) {
	for ; s != 0; s >>= 1 {
		n++
	}
	return n
}

// Behind returns the events that come later in the streams of these.
func (s Set) Behind() Set { return s<<2 | s<<4 }

// Each calls use with every event, in order.
func (s Set) Each(use func(n uint8)) {
	for n := uint8(1); n <= s.Top(); n++ {
		if s&Only(n) != 0 {
			use(n)
		}
	}
}

// Subsets calls use with every subset.
func (s Set) Subsets(use func(Set)) {
	for sub := s; ; sub = (sub - 1) & s {
		use(sub)
		if sub == 0 {
			return
		}
	}
}

// String returns the events in braces.
func (s Set) String() string {
	var parts []string
	s.Each(func(n uint8) { parts = append(parts, fmt.Sprint(n)) })
	return "{" + strings.Join(parts, ",") + "}"
}
