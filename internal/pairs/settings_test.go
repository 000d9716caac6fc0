package pairs_test

import (
	"context"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

// settings has the stream set under load so that it fits no worker, at the beginning and at the end, until one names it.
func settings(s *stage, n int) act {
	set := func(t *testing.T, most int64) {
		t.Helper()
		stream, err := s.js.Stream(t.Context(), natstest.StreamName)
		if err != nil {
			t.Fatal(err)
		}
		config := stream.CachedInfo().Config
		config.MaxMsgsPerSubject = most
		if _, err := s.js.UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	named := func() (times int) {
		for _, w := range s.hired {
			times += strings.Count(w.Stderr(), "max_msgs_per_subject")
		}
		return times
	}
	comeAndGo := func(t *testing.T) {
		t.Helper()
		before := named()
		set(t, 1<<20) // which drops nothing
		stream := s.stream("unfit", n)
		s.committed(t, event(stream), event(stream))
		clustertest.Until(t, "a worker names the setting", func(context.Context) (bool, error) { return named() > before, nil }, nil)
		set(t, -1)
	}
	return act{begin: comeAndGo, end: comeAndGo}
}
