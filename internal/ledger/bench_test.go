package ledger_test

import (
	"testing"

	"github.com/postrider/postrider/internal/ledger"
)

func BenchmarkReceive(b *testing.B) {
	b.Run("tail", func(b *testing.B) {
		s := newScenario(1_000_000, 10_000, 64)
		c := newChecker(b, ledger.Config{})
		b.ReportAllocs()
		b.ResetTimer()
		for i := range b.N {
			m := s.messages[i%len(s.messages)]
			shift(&m, i, len(s.messages))
			c.Receive(m)
		}
		b.StopTimer()
		if r := c.Report(); !r.OK() {
			b.Fatal(r)
		}
	})
	b.Run("ledger", func(b *testing.B) {
		s := newScenario(max(b.N, 10_000), 10_000, 64)
		l := ledger.New()
		c := newChecker(b, ledger.Config{Ledger: l})
		l.Committed(s.entries, epoch)
		b.ReportAllocs()
		b.ResetTimer()
		receiveAll(c, s.messages[:b.N])
	})
}

// shift makes message i of an endless run from a finite one.
func shift(m *ledger.Message, i, length int) {
	round := int64(i / length * length)
	m.Sequence += round
	m.StreamVersion += round
	m.StreamSequence += uint64(round)
}

func BenchmarkParseMessage(b *testing.B) {
	m := newScenario(1, 1, 1).messages[0]
	h, body := header(m), make([]byte, 300)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ledger.ParseMessage("events.a.b", h, body, 1); err != nil {
			b.Fatal(err)
		}
	}
}
