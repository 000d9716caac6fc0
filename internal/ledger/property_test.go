package ledger_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/ledger"
)

// interleave returns the messages in a random order that keeps the order of
// each group.
func interleave(t *rapid.T, messages []ledger.Message, group func(ledger.Message) int) []ledger.Message {
	queues := make(map[int][]ledger.Message)
	var keys []int
	for _, m := range messages {
		key := group(m)
		if len(queues[key]) == 0 {
			keys = append(keys, key)
		}
		queues[key] = append(queues[key], m)
	}
	var mixed []ledger.Message
	for len(keys) > 0 {
		i := rapid.IntRange(0, len(keys)-1).Draw(t, "next")
		key := keys[i]
		mixed = append(mixed, queues[key][0])
		if queues[key] = queues[key][1:]; len(queues[key]) == 0 {
			keys = slices.Delete(keys, i, i+1)
		}
	}
	return mixed
}

func streamOf(m ledger.Message) int { return int(m.Stream[1]-'0')*10 + len(m.Stream) }

func partitionOf(m ledger.Message) int { return int(m.Partition) }

// check runs one order of reception with the declarations dropped in between
// at random, and without a ledger.
func check(t *rapid.T, s *scenario, ordering ledger.Ordering) (withLedger, alone ledger.Report) {
	l := ledger.New()
	c, err := ledger.NewChecker(ledger.Config{Ledger: l, Ordering: ordering})
	if err != nil {
		t.Fatal(err)
	}
	tail, err := ledger.NewChecker(ledger.Config{Ordering: ordering})
	if err != nil {
		t.Fatal(err)
	}
	declareAt := rapid.IntRange(0, len(s.messages)).Draw(t, "declare at")
	for i, m := range s.messages {
		if i == declareAt {
			l.Committed(s.entries, epoch)
		}
		c.Receive(m)
		tail.Receive(m)
	}
	if declareAt == len(s.messages) {
		l.Committed(s.entries, epoch)
	}
	l.Finish()
	return c.Report(), tail.Report()
}

func drawScenario(t *rapid.T) *scenario {
	return newScenario(rapid.IntRange(2, 60).Draw(t, "events"), rapid.IntRange(1, 9).Draw(t, "streams"),
		rapid.IntRange(1, 4).Draw(t, "partitions"))
}

func TestAnyOrderThatKeepsThePromiseIsOK(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawScenario(t)
		ordering := rapid.SampledFrom([]ledger.Ordering{ledger.ByPartition, ledger.ByStream}).Draw(t, "ordering")
		group := partitionOf
		if ordering == ledger.ByStream {
			group = streamOf
		}
		s.messages = interleave(t, s.messages, group)
		s.restore()
		withLedger, alone := check(t, s, ordering)
		if !withLedger.OK() || withLedger.Received != len(s.entries) {
			t.Fatalf("with ledger: %s", withLedger)
		}
		if !alone.OK() || alone.Received != len(s.entries) {
			t.Fatalf("alone: %s", alone)
		}
	})
}

// The expected number of reordered events is computed independently: those
// with a higher sequence of their group anywhere before them.
func TestAnyOrderIsJudgedExactly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawScenario(t)
		s.messages = rapid.Permutation(s.messages).Draw(t, "order")
		s.restore()
		ordering := rapid.SampledFrom([]ledger.Ordering{ledger.ByPartition, ledger.ByStream}).Draw(t, "ordering")
		want := 0
		for i, m := range s.messages {
			late := slices.ContainsFunc(s.messages[:i], func(before ledger.Message) bool {
				together := before.Stream == m.Stream || ordering == ledger.ByPartition && before.Partition == m.Partition
				return together && before.Sequence > m.Sequence
			})
			if late {
				want++
			}
		}
		withLedger, alone := check(t, s, ordering)
		if withLedger.Reordered != want || alone.Reordered != want || withLedger.OK() != (want == 0) {
			t.Fatalf("want %d reordered, got %d with ledger, %d alone", want, withLedger.Reordered, alone.Reordered)
		}
	})
}

func TestAnyLossAndCopyIsCounted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawScenario(t)
		lost, doubled := 0, 0
		var kept []ledger.Message
		for _, m := range s.messages {
			switch rapid.IntRange(0, 9).Draw(t, "fate") {
			case 0:
				lost++
			case 1:
				doubled++
				kept = append(kept, m, m)
			default:
				kept = append(kept, m)
			}
		}
		s.messages = kept
		s.restore()
		withLedger, alone := check(t, s, ledger.ByPartition)
		if withLedger.Lost != lost || withLedger.Duplicates != doubled || withLedger.Reordered != 0 {
			t.Fatalf("lost %d, doubled %d, got %s", lost, doubled, withLedger)
		}
		if alone.Duplicates != doubled || alone.Reordered != 0 || alone.Received != len(s.entries)-lost {
			t.Fatalf("lost %d, doubled %d, alone got %s", lost, doubled, alone)
		}
	})
}
