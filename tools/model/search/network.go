package search

// Hold puts a request into the first free place of a network, unless it is there; a place that is not in use is zero.
func Hold[R comparable](places []R, request R) (fits bool) {
	var free R
	for i := range places {
		if places[i] == free {
			places[i] = request
		}
		if places[i] == request {
			return true
		}
	}
	return false
}

// Release takes the request of a place out of a network; those behind it move up.
func Release[R comparable](places []R, place int) R {
	request := places[place]
	copy(places[place:], places[place+1:])
	clear(places[len(places)-1:])
	return request
}

// Flags packs truths into a key's byte.
func Flags(set ...bool) (bits byte) {
	for i, is := range set {
		if is {
			bits |= 1 << i
		}
	}
	return bits
}
