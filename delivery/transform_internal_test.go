package delivery

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// BenchmarkTransform is what calling a hook costs that does nothing.
func BenchmarkTransform(b *testing.B) {
	cfg := Config{Transforms: []Transform{func(context.Context, *Draft) error { return nil }}, Logger: slog.New(slog.DiscardHandler)}
	h := newShaping(cfg.WithDefaults(), func() {}).start(b.Context(), func() bool { return false })
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
