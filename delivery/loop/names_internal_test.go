package loop

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/postrider/postrider/delivery"
)

// mixed is a batch of topics that take turns, one in four beyond those that are told apart.
func mixed(t testing.TB) (*tally, delivery.Result) {
	t.Helper()
	c := newTally(promauto.With(prometheus.NewRegistry()), "topic")
	var res delivery.Result
	for i := range 400 {
		name := string(rune('a'+i%3)) + "-topic"
		if i%4 == 0 {
			name = string(rune('α' + i))
		}
		res.Batch.Messages = append(res.Batch.Messages, delivery.Message{Pointer: delivery.Pointer{Topic: name}})
		res.Outcomes = append(res.Outcomes, delivery.Outcome{Kind: delivery.Published})
	}
	c.count(res, topicOf)
	return c, res
}

func TestCountingByNameAllocatesNothing(t *testing.T) { //nolint:paralleltest // it counts allocations
	c, res := mixed(t)
	if n := testing.AllocsPerRun(100, func() { c.count(res, topicOf) }); n > 0 {
		t.Errorf("%v allocations for %d messages", n, len(res.Outcomes))
	}
}

func BenchmarkCountingByName(b *testing.B) {
	c, res := mixed(b)
	for b.Loop() {
		c.count(res, topicOf)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(res.Outcomes)), "ns/message")
}
