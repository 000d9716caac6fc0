package search

// Classify searches with exact keys, and counts the classes into which another system's keys would put the states. Where states that
// count as one differ in their successors, the other system finds fewer.
func Classify[S any, N Note](exact, reduced System[S, N], options Options) (r Result[S, N], classes int) {
	c := &classifying[S, N]{exact, reduced, map[string]bool{}}
	r = Run[S, N](c, options)
	return r, len(c.classes)
}

// classifying notes the other system's key of each state.
type classifying[S any, N Note] struct {
	System[S, N]

	reduced System[S, N]
	classes map[string]bool
}

// Key implements System.
func (c *classifying[S, N]) Key(s *S, key []byte) []byte {
	c.classes[string(c.reduced.Key(s, nil))] = true
	return c.System.Key(s, key)
}
