package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery"
)

// BenchmarkMessage is what making a message costs, without sending it.
func BenchmarkMessage(b *testing.B) {
	subject, err := ParseSubject(DefaultSubject)
	if err != nil {
		b.Fatal(err)
	}
	m := delivery.Message{
		Pointer: delivery.Pointer{Partition: 3, Sequence: 123456, Stream: "order-7", Topic: "shop"},
		Event: &delivery.Event{
			Sequence: 123456, ID: uuid.New(), StreamVersion: 3, Type: "order.paid", Payload: []byte(strings.Repeat("x", 300)), OccurredAt: time.Now(),
		},
	}
	for name, headers := range map[string]Headers{
		"plain": {}, "cloudevents": {CloudEvents: &CloudEvents{Source: "/shop/orders", ContentType: "application/json"}},
	} {
		build, err := NewBuilder(Shape{Subject: subject, Headers: headers})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			w := build.writer()
			for b.Loop() {
				w.Message(m, build.Body(m))
			}
		})
	}
}
