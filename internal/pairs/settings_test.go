package pairs_test

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

// settings has the stream set under load so that it fits no worker, at the beginning and at the end, until one names it.
func settings(s *stage, n int) act {
	named := func() (times int) {
		for _, w := range s.hired {
			times += strings.Count(w.Stderr(), "max_msgs_per_subject")
		}
		return times
	}
	comeAndGo := func(t *testing.T) {
		t.Helper()
		before := named()
		s.set(t, func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 << 20 }) // which drops nothing
		stream := s.stream("unfit", n)
		s.committed(t, event(stream), event(stream))
		clustertest.Until(t, "a worker names the setting", func(context.Context) (bool, error) { return named() > before, nil }, nil)
		s.set(t, func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = -1 })
	}
	return act{begin: comeAndGo, end: comeAndGo}
}

// batchesOff has the stream take no batches, so that all messages go one by one.
func batchesOff(s *stage, n int) act {
	turn := func(on bool) func(*testing.T) {
		return func(t *testing.T) {
			t.Helper()
			s.set(t, func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = on })
			stream := s.stream("batches", n)
			s.committed(t, event(stream), event(stream))
		}
	}
	return act{begin: turn(false), end: turn(true)}
}

// set changes the stream's settings.
func (s *stage) set(t *testing.T, change func(*jetstream.StreamConfig)) {
	t.Helper()
	stream, err := s.js.Stream(t.Context(), natstest.StreamName)
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	change(&config)
	if _, err := s.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}
