package measure

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// What was committed must have been received once, and nothing else.
func TestEachEventIsReceivedOnce(t *testing.T) {
	t.Parallel()
	ids := []uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
	made := []moment{{id: ids[0]}, {id: ids[1]}, {id: ids[2]}}
	all := []receipt{{ids[2], 30}, {ids[0], 10}, {ids[1], 20}}
	at, err := once(made, all)
	if err != nil || at[0] != 10 || at[1] != 20 || at[2] != 30 {
		t.Errorf("%v, %v", at, err)
	}
	for want, received := range map[string][]receipt{
		"lost 1, repeated 0; unknown 0": all[1:],
		"lost 0, repeated 1; unknown 0": append([]receipt{{ids[1], 5}}, all...),
		"lost 0, repeated 0; unknown 1": append([]receipt{{uuid.New(), 5}}, all...),
	} {
		if _, err := once(made, received); !errors.Is(err, ErrUnproved) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A commit that takes long is late by the schedule, and so are those that its producer had to leave undone meanwhile; the
// schedule goes on for the others.
func TestAStallShowsInTheSchedule(t *testing.T) {
	t.Parallel()
	b, err := start(t.Context(), tiny(t, "steady"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	data, err := b.dataset(500)
	if err != nil {
		t.Fatal(err)
	}
	plain := plainTransactions()
	d, err := b.copied(t.Context(), "bench_stall", shape{partitions: 8}, data, func(u string) error { return plain.Create(t.Context(), u) })
	if err != nil {
		t.Fatal(err)
	}
	insert, err := plain.Producer()
	if err != nil {
		t.Fatal(err)
	}
	const stall, rate = 400 * time.Millisecond, 100
	s := schedule{d: d, rate: rate, warmUp: 100 * time.Millisecond, length: 500 * time.Millisecond, how: transaction{
		insert: func(ctx context.Context, tx pgx.Tx, e PeerEvent) error {
			if e.Sequence == 5 {
				if _, err := tx.Exec(ctx, `SELECT pg_sleep($1)`, stall.Seconds()); err != nil {
					return err
				}
			}
			return insert(ctx, tx, e)
		},
	}}
	made, used, err := s.run(t.Context(), b.roles(nil))
	if err != nil {
		t.Fatal(err)
	}
	if len(made) != 60 || s.warm() != 10 {
		t.Fatalf("%d transactions, %d of them to warm up", len(made), s.warm())
	}
	at := make([]int64, len(made))
	for i, m := range made {
		if due := made[0].due.Add(time.Duration(i) * time.Second / rate); m.due.Sub(due).Abs() > time.Microsecond {
			t.Errorf("transaction %d was due %s after the schedule's time", i, m.due.Sub(due))
		}
		if late := m.committed.Sub(m.due); late < 0 || i == 4 && late < stall || i == 20 && late < stall-producers*time.Second/rate {
			t.Errorf("transaction %d was committed %s after it was due", i, late)
		}
		at[i] = m.committed.Add(2 * time.Millisecond).UnixNano()
	}
	values := map[string]float64{}
	latencies(values, made, at)
	if values[ValueP50] != 2 || values[ValueMax] != 2 || values[ValueDueP99] < float64(stall/time.Millisecond) {
		t.Errorf("%v", values)
	}
	if used.wall < s.length/2 { // the first look may be late, too
		t.Errorf("the processors were measured for %s", used.wall)
	}
}
