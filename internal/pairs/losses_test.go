package pairs_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

// lose notes what the stream holds, and what of it a loss takes.
func (s *stage) lose(t *testing.T, loss func()) {
	t.Helper()
	tape := s.tape(t)
	s.tapes = append(s.tapes, tape)
	if s.consumer.aways == 0 {
		s.catchUp(t, tape)
	}
	loss()
	taken := tape[kept(tape, s.tape(t)):]
	s.consumer.miss(t, taken)
	if s.permits&reports != 0 {
		for _, m := range taken {
			s.unhealed[m.EventID] = true
		}
	}
}

// kept counts the messages that a stream has from an earlier one: it begins with them.
func kept(earlier, tape []ledger.Message) (n int) {
	for n < len(earlier) && n < len(tape) && earlier[n].StreamSequence == tape[n].StreamSequence && earlier[n].ReceivedAt.Equal(tape[n].ReceivedAt) {
		n++
	}
	return n
}

// streams hold each message that was ever stored once: those of the stream behind those of earlier ones.
func (s *stage) streams(t *testing.T) (streams [][]ledger.Message) {
	t.Helper()
	var before []ledger.Message
	for _, tape := range append(s.tapes[:len(s.tapes):len(s.tapes)], s.tape(t)) {
		streams = append(streams, tape[kept(before, tape):])
		before = tape
	}
	return streams
}

// lost deletes the stream and makes it again, before anybody can notice.
func lost(s *stage, _ int) act {
	return act{begin: func(t *testing.T) {
		t.Helper()
		s.quietly(t, func() {
			s.lose(t, func() {
				if err := s.js.DeleteStream(t.Context(), natstest.StreamName); err != nil {
					t.Fatal(err)
				}
				s.NATS.Stream(t, 1)
			})
		})
	}}
}

// reported is lost, with workers that report it.
func reported(s *stage, n int) act {
	a := lost(s, n)
	a.finish = func(t *testing.T) {
		t.Helper()
		clustertest.Until(t, "a worker reports the loss", func(context.Context) (bool, error) {
			return slices.ContainsFunc(s.hired, func(w *clustertest.Worker) bool {
				return strings.Contains(w.Stderr(), "THE STREAM HAS LOST ACKNOWLEDGED MESSAGES")
			}), nil
		}, nil)
	}
	return a
}

// emptied purges the stream.
func emptied(s *stage, _ int) act {
	return act{begin: func(t *testing.T) {
		t.Helper()
		s.quietly(t, func() {
			s.lose(t, func() {
				stream, err := s.js.Stream(t.Context(), natstest.StreamName)
				if err == nil {
					err = stream.Purge(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
			})
		})
	}}
}

// restored puts the stream's files back as an older copy has them, behind which events were published.
func restored(s *stage, _ int) act {
	return act{begin: func(t *testing.T) {
		t.Helper()
		s.quietly(t, func() {
			node, older := s.NATS.Cluster(t), filepath.Join(t.TempDir(), "older")
			stopped := func(do func() error) {
				t.Helper()
				err := node.StopNode(0)
				if err == nil {
					err = do()
				}
				if err == nil {
					err = node.RestartNode(t.Context(), 0)
				}
				if err != nil {
					t.Fatal(err)
				}
				s.js = s.NATS.JetStream(t) // the former one may still look for the server
			}
			stopped(func() error { return os.CopyFS(older, os.DirFS(s.store)) })
			for i := range 10 {
				s.committed(t, event(s.stream("lost", i)), event(s.stream("lost", i)))
			}
			s.flow(t)
			s.lose(t, func() {
				stopped(func() error {
					if err := os.RemoveAll(s.store); err != nil {
						return err
					}
					return os.CopyFS(s.store, os.DirFS(older))
				})
			})
		})
	}}
}
