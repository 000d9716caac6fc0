package pairs_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/partition"
)

// resize changes the number of partitions. While a prepared transaction is open it waits; while anything is paused it may be
// refused.
func resize(by int) func(*stage, int) act {
	return func(s *stage, _ int) act {
		var p *clustertest.Process
		to := 0
		settle := func(t *testing.T) {
			t.Helper()
			switch {
			case p.Exit(t) == 0:
				s.Repartitioned(to)
			case len(s.paused) > 0 && strings.Contains(p.Stderr(), "paused"):
				s.refused = append(s.refused, "resize")
			default:
				t.Fatalf("partitions resize %d: %s", to, p.Stderr())
			}
			p = nil
		}
		return act{
			begin: func(t *testing.T) {
				t.Helper()
				to = s.Partitions() + by
				p = clustertest.Launch(t, "resize", s.Environment(), "partitions", "resize", strconv.Itoa(to), "--yes", "--reason=a pair")
				if len(s.open) == 0 {
					settle(t)
					return
				}
				s.WaitCount(t, 1, `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'postrider resize' AND wait_event_type = 'Lock'`)
			},
			finish: func(t *testing.T) {
				t.Helper()
				if p != nil {
					settle(t)
				}
			},
			check: func(t *testing.T) {
				t.Helper()
				if n := s.Count(t, `SELECT count(*) FROM outbox_partitions`); n != s.Partitions() {
					t.Errorf("there are %d rows of partitions, want %d", n, s.Partitions())
				}
			},
		}
	}
}

// prune mends outbox_partitions, of which a row is missing and to which two were added by hand.
func prune(s *stage, _ int) act {
	return act{begin: func(t *testing.T) {
		t.Helper()
		s.exec(t, `INSERT INTO outbox_partitions (partition_key) VALUES (60), (61)`)
		s.exec(t, `DELETE FROM outbox_partitions WHERE partition_key = 0`)
		s.operate(t, "partitions", "sync", "--prune")
		if n := s.Count(t, `SELECT count(*) FROM outbox_partitions`); n != s.Partitions() {
			t.Errorf("sync --prune leaves %d rows of partitions, want %d", n, s.Partitions())
		}
	}}
}

// pause holds two partitions: nothing of them is delivered until it ends, whatever happens meanwhile.
func pause(s *stage, n int) act {
	ids := []partition.ID{partition.ID(2*n - 1), partition.ID(2 * n)}
	numbers := []string{strconv.Itoa(int(ids[0])), strconv.Itoa(int(ids[1]))}
	var held []ledger.Entry
	return act{
		begin: func(t *testing.T) {
			t.Helper()
			if s.Partitions() <= int(ids[1]) {
				t.Fatalf("there are only %d partitions", s.Partitions())
			}
			s.operate(t, append([]string{"partitions", "pause", "--reason=a pair"}, numbers...)...)
			for _, id := range ids {
				s.paused[id] = true
				for i := range 3 {
					stream := s.stream(fmt.Sprintf("held-%d", i), n, id)
					held = append(held, s.committed(t, event(stream), event(stream))...)
				}
			}
		},
		end: func(t *testing.T) {
			t.Helper()
			s.quietly(t, func() { // what could go has gone
				if got := s.stored(t, held); got > 0 {
					t.Errorf("%d of %d events of paused partitions were delivered", got, len(held))
				}
			})
			s.operate(t, append([]string{"partitions", "resume"}, numbers...)...)
			for _, id := range ids {
				delete(s.paused, id)
			}
		},
	}
}

// drain has a worker give back what it holds. Its successor is another process.
func drain(s *stage, _ int) act {
	var w *clustertest.Worker
	return act{
		begin: func(t *testing.T) {
			t.Helper()
			w, s.workers = s.workers[0], s.workers[1:]
			s.WaitCount(t, 1, `SELECT count(*) FROM outbox_workers WHERE worker_id = $1 AND heartbeat_until > clock_timestamp()`, w.ID) // after a failover
			s.operate(t, "workers", "drain", w.ID.String(), "--reason=a pair")
			clustertest.Until(t, "the worker holds nothing", func(ctx context.Context) (bool, error) {
				owners, err := s.Owners(ctx)
				for _, owner := range owners {
					if owner == w.ID {
						return false, err
					}
				}
				return err == nil, err
			}, nil)
		},
		end: func(t *testing.T) {
			t.Helper()
			w.Signal(t, syscall.SIGTERM)
			if code := w.Exit(t); code != 0 {
				t.Errorf("the drained worker ended with status %d: %s", code, w.Stderr())
			}
			s.hire(t, 1)
		},
	}
}

// requeue has a message that the broker refuses, and delivers it when it is cured.
func requeue(s *stage, n int) act {
	var dead int64
	died := func(ctx context.Context) (bool, error) {
		var yes bool
		err := s.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM outbox WHERE global_sequence = $1 AND dead_at IS NOT NULL)`, dead).Scan(&yes)
		return yes, err
	}
	cured := false
	cure := func(t *testing.T) {
		t.Helper()
		clustertest.Until(t, "the message that is too large is dead", died, func() string { return s.waiting(t) })
		s.exec(t, `UPDATE events SET payload = '{}' WHERE sequence = $1`, dead)
		s.operate(t, "dead", "requeue", "--all", "--yes", "--reason=a pair")
		cured = true
	}
	return act{
		begin: func(t *testing.T) {
			t.Helper()
			stream := s.stream("dead", n)
			s.late = append(s.late, stream)
			dead = s.committed(t, event(stream, func(e *outbox.Event) {
				e.Payload = fmt.Appendf(nil, `{"filling":"%s"}`, strings.Repeat("x", 2*brokerPayload))
			}), event(stream), event(stream))[0].Sequence
			if dead < s.held() {
				clustertest.Until(t, "the message that is too large is dead", died, func() string { return s.waiting(t) })
			}
		},
		end: func(t *testing.T) {
			t.Helper()
			if dead < s.held() {
				cure(t)
			}
		},
		finish: func(t *testing.T) {
			t.Helper()
			if !cured {
				cure(t)
			}
		},
	}
}

// replayed replays what was published until it began.
func replayed(s *stage, _ int) act {
	var p *clustertest.Process
	var command []string
	var to int
	end := func(t *testing.T) {
		t.Helper()
		if p.Exit(t) == 0 {
			return
		}
		if strings.Contains(p.Stderr(), "another live replay is running") {
			s.selects[to] = unselected
			s.WaitCount(t, 1, `SELECT (count(*) = 0)::int FROM outbox_replays WHERE state = 'running'`)
			s.operate(t, command...)
			return
		}
		t.Logf("the replay was interrupted: %s", p.Stderr())
		id := s.Count(t, `SELECT max(id) FROM outbox_replays`)
		s.operate(t, "replay", "resume", strconv.Itoa(id), "--rate=0")
	}
	ended := false
	return act{
		begin: func(t *testing.T) {
			t.Helper()
			s.WaitCount(t, 1, `SELECT (count(*) > 0)::int FROM outbox_messages WHERE state = 'published'`)
			to = s.Count(t, `SELECT max(global_sequence) FROM outbox_messages WHERE state = 'published'`)
			command = []string{"replay", "--to-sequence=" + strconv.Itoa(to), "--yes", "--rate=200", "--batch-size=20", "--reason=a pair", "--json"}
			p = clustertest.Launch(t, "replay", s.Environment(), command...)
			s.selects[to] = unselected
			clustertest.Until(t, "the replay is under way", func(ctx context.Context) (bool, error) {
				select {
				case <-p.Ended(): // refused, or fast: what it left out is forgotten
					return true, nil
				default:
				}
				n, err := s.selected(ctx, to)
				s.selects[to] = n
				return n != unselected, err
			}, p.Stderr)
		},
		end: func(t *testing.T) {
			t.Helper()
			if len(s.open) == 0 {
				end(t)
				ended = true
			}
		},
		finish: func(t *testing.T) {
			t.Helper()
			if !ended {
				end(t)
			}
		},
		check: s.wantReplayed,
	}
}

// selected is how many events a replay up to that sequence is to deliver; unselected: it was not made, or has ended.
func (s *stage) selected(ctx context.Context, to int) (n int, err error) {
	err = s.Pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM events WHERE sequence <= r.last_sequence)
			- (SELECT count(*) FROM outbox_replay_sequences WHERE replay_id = r.id)
		FROM outbox_replays AS r WHERE last_sequence = $1 AND state <> 'done'`, to).Scan(&n)
	if errors.Is(err, pgx.ErrNoRows) {
		return unselected, nil
	}
	return n, err
}

// scheduled has events that are due in an hour, and others behind them; its end is that they are due.
func scheduled(s *stage, n int) act {
	var waiting []ledger.Entry
	var stream string
	return act{
		begin: func(t *testing.T) {
			t.Helper()
			stream = s.stream("later", n)
			s.late = append(s.late, stream)
			waiting = s.committed(t, event(stream, func(e *outbox.Event) { e.AvailableAt = time.Now().Add(time.Hour) }), event(stream), event(stream))
		},
		end: func(t *testing.T) {
			t.Helper()
			s.quietly(t, func() {
				if got := s.stored(t, waiting); got > 0 {
					t.Errorf("%d of %d scheduled events were delivered before their time", got, len(waiting))
				}
			})
			s.exec(t, `UPDATE outbox SET available_at = clock_timestamp() - interval '1 second' WHERE stream_id = $1`, stream)
		},
	}
}

// retention sweeps the older half of the history.
func retention(s *stage, _ int) act {
	return act{begin: func(t *testing.T) {
		t.Helper()
		s.quietly(t, func() {
			old := s.sequences(t, `WITH half AS (SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY id) AS id FROM outbox_deliveries),
				aged AS (UPDATE outbox_deliveries AS d SET published_at = d.published_at - interval '8 days' FROM half WHERE d.id <= half.id RETURNING d.*)
				SELECT DISTINCT unnest(coalesce(sequences, ARRAY(SELECT generate_series(first_sequence, last_sequence)))) FROM aged`)
			store, err := pgstore.New(t.Context(), s.Pool, "public", pgstore.Relation{Name: "events"})
			if err != nil {
				t.Fatal(err)
			}
			sweeper, err := pgstore.NewSweeper(store, s.Pool, pgstore.RetentionConfig{History: 7 * 24 * time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			if n, err := sweeper.Sweep(t.Context()); err != nil || n == 0 {
				t.Fatalf("the sweep removed %d rows: %v", n, err)
			}
			for _, sequence := range old {
				s.swept[sequence] = true
			}
		})
	}}
}
