package wire_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/partition"
)

func TestABellIsHeardByAll(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, 1)
	var bells []*wire.Bell
	for range 3 {
		b, err := wire.NewBell(connect(t, server), "outbox.bell.test")
		if err != nil {
			t.Fatal(err)
		}
		bells = append(bells, b)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, b := range bells {
		if err := b.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	heard := func(want []partition.ID, all bool) {
		t.Helper()
		for _, b := range bells {
			var named []partition.ID
			var every bool
			for len(named) < len(want) || every != all {
				select {
				case <-b.Rung():
				case <-ctx.Done():
					t.Fatalf("a bell heard %v, %t; want %v, %t", named, every, want, all)
				}
				more, e := b.Heard()
				named, every = append(named, more...), every || e
			}
			if slices.Sort(named); !slices.Equal(named, want) {
				t.Errorf("a bell heard %v, want %v", named, want)
			}
		}
	}
	bells[0].Ring()
	heard(nil, true)
	ring := func(body []byte) {
		t.Helper()
		if err := connect(t, server).Publish("outbox.bell.test", body); err != nil {
			t.Fatal(err)
		}
	}
	ring(outbox.BellBody(outbox.Appended{Partition: 300, Enqueued: true}, outbox.Appended{Partition: 7, Enqueued: true}))
	heard([]partition.ID{7, 300}, false)
	ring([]byte("odd"))
	heard(nil, true)
}
