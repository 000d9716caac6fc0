package shape

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery"
)

// BenchmarkTransform measures the call of a hook that does nothing.
func BenchmarkTransform(b *testing.B) {
	s := New(Config{
		Transforms: []Transform{func(context.Context, *Draft) error { return nil }}, Timeout: time.Second, MaxPayload: 8 << 20, Grow: 16 << 20,
		Logger: slog.New(slog.DiscardHandler),
	}, func() {})
	h := s.Start(b.Context(), s.own, func() bool { return false })
	defer h.End()
	m := delivery.Message{
		Pointer: delivery.Pointer{Sequence: 1, Stream: "s", Topic: "t"},
		Event:   &delivery.Event{ID: uuid.New(), Type: "x", Payload: []byte(strings.Repeat("x", 300)), Size: 300},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, o, _ := h.transform(m); o != nil {
			b.Fatal(o.Err)
		}
	}
}
