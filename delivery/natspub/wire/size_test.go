package wire_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub/wire"
)

// A limit may change at any time, and the text that names it changes with it.
func TestTheTextOfALimitFollowsTheLimit(t *testing.T) {
	t.Parallel()
	build, err := wire.NewBuilder(wire.Shape{})
	if err != nil {
		t.Fatal(err)
	}
	nc := &nats.Conn{} // without a limit
	for _, most := range []int{1000, 1000, 2000, 1000} {
		want := delivery.Capabilities{Largest: 1000, Limit: "stream EVENTS takes messages of at most 1000"}
		if most == 2000 {
			want.Largest, want.Limit = 2000, "stream EVENTS takes messages of at most 2000"
		}
		if can := build.Capabilities(nc, most, "EVENTS"); can != want {
			t.Errorf("at most %d: %+v", most, can)
		}
	}
}
