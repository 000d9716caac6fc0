package natspub

import (
	"context"
	"testing"

	"github.com/postrider/postrider/delivery/natspub/wire"
)

// fill takes all slots, gives them back with an answer, and returns how many there were.
func fill(t *testing.T, s *slots, ans wire.Answer) (n int) {
	t.Helper()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for s.enter(over) {
		n++
	}
	for range n {
		s.leave(ans)
	}
	return n
}

// A process begins with its share, takes half of it when the stream has no room, never less than one, and more while it is short and
// the stream has; a new share is begun with anew.
func TestSlotsFollowWhatTheStreamAdmits(t *testing.T) {
	t.Parallel()
	share := 4
	s := newSlots(func() int { return share })
	full := wire.Answer{Err: &wire.APIError{ErrCode: wire.CodeBatchTooMany}}
	if n := fill(t, s, wire.Answer{Err: errNotSent}); n != 4 {
		t.Errorf("it begins with %d, want its share", n)
	}
	if !s.enter(t.Context()) {
		t.Fatal("no slot")
	}
	s.leave(full)
	if n := fill(t, s, wire.Answer{Err: errNotSent}); n != 2 {
		t.Errorf("refused once it takes %d, want half", n)
	}
	fill(t, s, full)
	if n := fill(t, s, wire.Answer{Err: errNotSent}); n != 1 {
		t.Errorf("refused again and again it takes %d, want one", n)
	}
	for range 3 * roomier {
		fill(t, s, wire.Answer{})
	}
	if n := fill(t, s, wire.Answer{Err: errNotSent}); n < 3 || n > mostSlots {
		t.Errorf("after many batches it takes %d, want more", n)
	}
	share = 2
	if n := fill(t, s, wire.Answer{Err: errNotSent}); n != 2 {
		t.Errorf("with a new share it takes %d, want that", n)
	}
}

// Who is not short does not ask for more.
func TestSlotsGrowOnlyWhereTheyAreShort(t *testing.T) {
	t.Parallel()
	s := newSlots(func() int { return 2 })
	for range 3 * roomier {
		if !s.enter(t.Context()) {
			t.Fatal("no slot")
		}
		s.leave(wire.Answer{})
	}
	if n := fill(t, s, wire.Answer{}); n != 2 {
		t.Errorf("it takes %d, want its share", n)
	}
}
