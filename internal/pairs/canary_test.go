package pairs_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/worker"
)

// canaries has workers that append and read events of their own, and in the end miss none. It is quiet when they are replaced by workers that
// do not.
func canaries(s *stage, _ int) act {
	c := &crew{}
	c.begin = func(t *testing.T) {
		t.Helper()
		if s.canaries++; s.canaries == 1 {
			s.replace(t, len(s.workers))
		}
	}
	c.end = func(t *testing.T) {
		t.Helper()
		if s.canaries--; s.canaries == 0 {
			s.replace(t, len(s.workers))
			s.declareCanaries(t)
		}
	}
	return act{
		begin: func(t *testing.T) {
			t.Helper()
			s.employ(t, c, 0)
			s.waitCanaries(t, 2)
		},
		finish: func(t *testing.T) {
			t.Helper()
			s.waitCanaries(t, s.Count(t, `SELECT count(*) FROM events WHERE topic = $1`, worker.CanaryTopic)+1)
			s.WaitCount(t, 1, `SELECT (count(*) = 0)::int FROM outbox_workers WHERE canary <> '' AND heartbeat_until > clock_timestamp()`)
			s.dismiss(t, c)
		},
	}
}

// waitCanaries waits until so many canaries were appended, and all of them published, unless something may hold them.
func (s *stage) waitCanaries(t *testing.T, n int) {
	t.Helper()
	var appended, waiting int
	held := len(s.open)+len(s.paused) > 0
	clustertest.Until(t, "canaries are published", func(ctx context.Context) (bool, error) {
		err := s.Pool.QueryRow(ctx, `SELECT count(*), count(o.global_sequence) FROM events AS e LEFT JOIN outbox AS o ON o.global_sequence = e.sequence
			WHERE e.topic = $1`, worker.CanaryTopic).Scan(&appended, &waiting)
		return err == nil && appended >= n && (held || waiting == 0), err
	}, func() string { return s.waiting(t) })
}

// declareCanaries has the ledger know what canaries appended, once nobody does so any more.
func (s *stage) declareCanaries(t *testing.T) {
	t.Helper()
	rows, err := s.Pool.Query(t.Context(), `SELECT e.event_id, e.stream_id, e.stream_version, e.sequence,
			coalesce((SELECT max(m.partition_key) FROM outbox_messages AS m WHERE m.global_sequence = e.sequence), outbox_partition(e.stream_id, $2))
		FROM events AS e WHERE e.topic = $1`, worker.CanaryTopic, s.Partitions())
	if err != nil {
		t.Fatal(err)
	}
	entries, err := pgx.CollectRows(rows, entryOf)
	if err != nil {
		t.Fatal(err)
	}
	s.Ledger.Committed(entries, time.Now())
}
