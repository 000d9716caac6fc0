package delivery

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/lease/leasetest"
)

// BenchmarkTransform is what calling a hook costs that does nothing.
func BenchmarkTransform(b *testing.B) {
	cfg := Config{Transforms: []Transform{func(context.Context, *Draft) error { return nil }}, Logger: slog.New(slog.DiscardHandler)}
	r := &Relay{cfg: cfg.WithDefaults(), freed: make(chan struct{}, 1)}
	h := r.startHooks(Batch{Lease: leasetest.Held(1, 1)})
	defer h.end()
	m := Message{
		Pointer: Pointer{Sequence: 1, Stream: "s", Topic: "t"},
		Event:   &Event{ID: uuid.New(), Type: "x", Payload: []byte(strings.Repeat("x", 300)), Size: 300},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, o, _ := h.transform(m); o != nil {
			b.Fatal(o.Err)
		}
	}
}
