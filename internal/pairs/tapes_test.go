package pairs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// judgeTapes looks at each stream by itself.
func (s *stage) judgeTapes(t *testing.T) {
	t.Helper()
	lost := map[uuid.UUID]bool{}
	var before []ledger.Message
	for i, tape := range append(s.tapes[:len(s.tapes):len(s.tapes)], s.tape(t)) {
		for _, m := range tape[:kept(before, tape)] {
			delete(lost, m.EventID)
		}
		before = tape
		if faults := s.judgeTape(t, tape, lost); len(faults) > 0 {
			t.Errorf("stream %d of %d has %d faults:\n%s", i+1, len(s.tapes)+1, len(faults), strings.Join(faults[:min(len(faults), 10)], "\n"))
		}
		for _, m := range tape {
			lost[m.EventID] = true
		}
	}
}

// judgeTape judges as one who knows nothing of earlier streams: no event comes twice but by a replay, and all are in order, also those that
// come again. What a replay publishes has an order of its own, that of streams. What was lost and is only to be reported does not come.
func (s *stage) judgeTape(t *testing.T, tape []ledger.Message, lost map[uuid.UUID]bool) (faults []string) {
	t.Helper()
	type publication struct {
		id     uuid.UUID
		replay int32 // without what resizes and failovers add to the generation
	}
	seen := map[publication]bool{}
	checkers := map[int32]*ledger.Checker{}
	for _, m := range tape {
		p := publication{m.EventID, m.Generation / replayStep}
		fault := ""
		switch {
		case seen[p]:
			fault = "came before"
		case p.replay > 0 && s.permits&again == 0:
			fault = "came, and nothing was replayed"
		case p.replay == 0 && s.permits&reports != 0 && lost[m.EventID]:
			fault = "came, and its loss was only to be reported"
		}
		if fault != "" {
			faults = append(faults, fmt.Sprintf("sequence %d of %s, generation %d, at %d %s", m.Sequence, m.Stream, m.Generation, m.StreamSequence, fault))
		}
		seen[p] = true
		if _, gone := s.forgotten[m.EventID]; gone {
			continue // its sequence may have been drawn again
		}
		if checkers[p.replay] == nil {
			config := ledger.Config{}
			if p.replay > 0 {
				config.Ordering = ledger.ByStream
			}
			checkers[p.replay] = s.checker(t, config)
		}
		m.ReceivedAt = time.Time{} // when it was stored is no time of reception
		for _, found := range checkers[p.replay].Receive(m) {
			faults = append(faults, found.String())
		}
	}
	return faults
}

// A tape that follows a loss is judged for order, copies and what may be there at all.
func TestTapesAreJudged(t *testing.T) {
	t.Parallel()
	ids := [3]uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
	tape := func(generation int32, order ...int) (tape []ledger.Message) {
		for at, i := range order { // two streams in one partition
			tape = append(tape, ledger.Message{
				EventID: ids[i], Stream: []string{"a", "b", "a"}[i], Sequence: int64(i + 1), StreamVersion: []int64{1, 1, 2}[i],
				Epoch: 1, Generation: generation, StreamSequence: uint64(at + 1),
			})
		}
		return tape
	}
	for name, test := range map[string]struct {
		permits permits
		tape    []ledger.Message
		want    string
	}{
		"again, in order":                  {repeats, tape(0, 0, 1, 2), ""},
		"again, out of a stream's order":   {repeats | moves, tape(0, 2, 0), "of its stream"},
		"again, out of a partition's":      {repeats, tape(0, 1, 0), "of its partition"},
		"the same where partitions change": {repeats | moves, tape(0, 1, 0), ""},
		"replayed by streams":              {again, tape(replayStep, 1, 0, 2), ""},
		"replayed by nobody":               {repeats, tape(replayStep, 0), "nothing was replayed"},
		"a copy":                           {repeats, tape(0, 0, 0), "came before"},
		"a copy with a raised generation":  {repeats, append(tape(0, 0), tape(1, 0)...), "came before"},
		"only to be reported":              {reports, tape(0, 0), "only to be reported"},
		"only reported, and replayed":      {reports | again, tape(replayStep, 0), ""},
	} {
		s := &stage{Cluster: &clustertest.Cluster{Ledger: ledger.New()}, permits: test.permits}
		faults := s.judgeTape(t, test.tape, map[uuid.UUID]bool{ids[0]: true, ids[1]: true, ids[2]: true})
		if text := strings.Join(faults, "\n"); (text == "") != (test.want == "") || !strings.Contains(text, test.want) {
			t.Errorf("%s: %q, want %q", name, text, test.want)
		}
	}
}
