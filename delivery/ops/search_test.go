package ops_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/pgstore"
)

// least has every page end as soon as it may.
const least = time.Nanosecond

// While rows come, are parked, requeued and published between its pages, a list
// in many small pieces shows every message that is there throughout exactly once,
// in order.
func TestNothingIsSkippedOrShownTwiceWhileRowsComeAndGo(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	b.appendMany(t, 3000)
	every := one[[]int64](t, b, `SELECT array_agg(sequence ORDER BY sequence) FROM events`)
	b.publish(t, every[:1500]...)
	random := rand.New(rand.NewPCG(3, 0))
	churn := func() {
		some := every[1500+random.IntN(1400):][:50]
		b.exec(t, `UPDATE outbox SET parked = true, blocked = true WHERE global_sequence = ANY ($1)`, some[:30])
		b.exec(t, `UPDATE outbox SET blocked = false, dead_at = clock_timestamp(), last_error = 'e', attempts = 1
			WHERE parked AND global_sequence = ANY ($1)`, some[:10])
		if _, err := b.op.Requeue(t.Context(), ops.Command{Selection: ops.Selection{All: true}, Actor: "a"}); err != nil {
			t.Fatal(err)
		}
		settle(t, b, some[40:])
		b.append(t, "s-new")
	}
	for _, p := range []ops.Page{{Limit: 40, Within: least}, {Limit: 40, Within: least, Descending: true}} {
		for _, f := range []ops.Filter{{}, {Type: "t"}, {Stream: "s-7"}, {Topic: "default"}} {
			want := every
			if f.Stream != "" {
				want = one[[]int64](t, b, `SELECT array_agg(sequence ORDER BY sequence) FROM events WHERE stream_id = $1`, f.Stream)
			}
			var got []ops.Message
			for page, more := p, true; more; churn() {
				l, err := b.op.List(t.Context(), f, page)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, l.Messages...)
				page.After, more = l.Next, l.Next != 0
			}
			checkOnce(t, fmt.Sprintf("%+v %+v", f, p), got, want, p)
		}
	}
}

// settle publishes those of the sequences that are still there.
func settle(t *testing.T, b *bundle, sequences []int64) {
	t.Helper()
	b.exec(t, `WITH gone AS (DELETE FROM outbox WHERE global_sequence = ANY ($1) RETURNING *)
		INSERT INTO outbox_deliveries (partition_key, lease_epoch, first_sequence, last_sequence, first_stream_sequence, last_stream_sequence, generations, message_count)
		SELECT partition_key, 1, global_sequence, global_sequence, global_sequence, global_sequence,
		       CASE WHEN generation > 0 THEN jsonb_build_object(global_sequence, generation) END, 1
		  FROM gone`, sequences)
}

func checkOnce(t *testing.T, what string, got []ops.Message, want []int64, p ops.Page) {
	t.Helper()
	var shown []int64
	for i, m := range got {
		if i > 0 && (m.Sequence < got[i-1].Sequence) != p.Descending {
			t.Errorf("%s: %d comes behind %d", what, m.Sequence, got[i-1].Sequence)
		}
		shown = append(shown, m.Sequence)
	}
	slices.Sort(shown)
	if compact := slices.Compact(slices.Clone(shown)); len(compact) != len(shown) {
		t.Errorf("%s: %d messages are shown twice", what, len(shown)-len(compact))
	}
	for _, sequence := range want {
		if _, found := slices.BinarySearch(shown, sequence); !found {
			t.Errorf("%s: %d is not shown", what, sequence)
			return
		}
	}
}

// A filter that nothing passes does not read the outbox in one go, whatever the
// planner believes about its tables; neither does a selection.
func TestAPageReadsABoundedNumberOfRows(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	const events = 40_000
	for _, statement := range []string{
		`ALTER TABLE outbox_ready SET (autovacuum_enabled = false)`, `ALTER TABLE outbox_parked SET (autovacuum_enabled = false)`,
		`ALTER TABLE events SET (autovacuum_enabled = false)`, `VACUUM ANALYZE outbox_ready`, `VACUUM ANALYZE outbox_parked`, `VACUUM ANALYZE events`,
	} {
		b.exec(t, statement)
	}
	b.appendMany(t, events)
	b.exec(t, `UPDATE outbox SET parked = true, blocked = global_sequence % 20 > 2, attempts = 1, last_error = 'e',
		dead_at = CASE WHEN global_sequence % 20 = 2 THEN now() END WHERE global_sequence % 2 = 0`)
	b.publish(t, one[[]int64](t, b, `SELECT array_agg(global_sequence) FROM outbox WHERE global_sequence < 5000 AND NOT parked`)...)
	looks := map[string]func(*ops.Operator) error{
		"dead": func(op *ops.Operator) error {
			_, err := op.Requeue(t.Context(), ops.Command{
				Selection: ops.Selection{Filter: ops.Filter{Type: "nothing"}}, Actor: "a", DryRun: true, CountWithin: least,
			})
			return err
		},
	}
	for _, f := range []ops.Filter{
		{},
		{Topic: "nothing"},
		{Type: "nothing"},
		{Since: time.Now().Add(time.Hour)},
		{Until: time.Unix(1, 0)},
		{ErrorContains: "nothing"},
		{ErrorContains: `%' OR true --`},
		{Type: "nothing", States: []ops.State{ops.Dead}},
		{Topic: "nothing", States: []ops.State{ops.Blocked}},
		{Stream: "nothing"},
		{Stream: "s-7"},
		{Topic: "nothing", States: []ops.State{ops.Published}},
		{Sequence: 7},
	} {
		for _, p := range []ops.Page{{Within: least}, {Within: least, Descending: true}} {
			looks[fmt.Sprintf("%+v %+v", f, p)] = func(op *ops.Operator) error {
				l, err := op.List(t.Context(), f, p)
				if err == nil && len(l.Messages) == 0 && l.Next != l.LookedUpTo {
					t.Errorf("%+v: it goes on behind %d and looked up to %d", f, l.Next, l.LookedUpTo)
				}
				return err
			}
		}
	}
	for name, look := range looks {
		rows := 0.0
		for _, p := range b.plans(t, look) {
			p.each(func(n plan) {
				if strings.HasPrefix(n.Relation, "outbox_parked") || strings.HasPrefix(n.Relation, "outbox_ready") || n.Relation == "events" {
					rows += (n.Rows + n.Removed) * max(n.Loops, 1)
				}
			})
		}
		if rows > events/4 {
			t.Errorf("%s reads %.0f rows", name, rows)
		}
	}
}

// A stream with very many events, and one in a view that has no index by stream,
// are found by looking at everything.
func TestStreamsThatAreNotNamedByAnIndex(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.exec(t, `SELECT outbox_append_batch(array_agg(CASE WHEN n % 4 = 0 THEN 'small' ELSE 'large' END), array_agg('t'::text), array_agg('x'::bytea))
		FROM generate_series(1, 4000) AS n`)
	b.publish(t, one[[]int64](t, b, `SELECT array_agg(sequence) FROM events WHERE sequence % 3 = 0`)...)
	b.exec(t, `CREATE FUNCTION slow(text) RETURNS text LANGUAGE plpgsql STABLE AS 'BEGIN PERFORM pg_sleep(0.001); RETURN $1; END'`)
	b.exec(t, `CREATE VIEW mine AS SELECT sequence, event_id, slow(stream_id) AS stream_id, stream_version, event_type, payload, metadata, tenant_id,
		recorded_at FROM events`)
	slow, err := ops.New(t.Context(), b.pool, "public", pgstore.Relation{Name: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	want := view(t, b)
	for _, stream := range []string{"small", "large"} {
		wanted := slices.DeleteFunc(slices.Clone(want), func(m ops.Message) bool { return m.Stream != stream })
		for _, p := range []ops.Page{{Limit: 500}, {Limit: 500, Within: least}} {
			compare(t, stream, all(t, b, ops.Filter{Stream: stream}, p), wanted)
		}
	}
	began := time.Now()
	l, err := slow.List(t.Context(), ops.Filter{Stream: "small"}, ops.Page{Limit: 10})
	if err != nil || len(l.Messages) == 0 || l.Messages[0].Sequence != 4 {
		t.Errorf("%+v, %v", l, err)
	}
	t.Logf("a view without an index answers after %s", time.Since(began))
}

// What waits beside a message of a stream with very many events is looked for
// nearby, and what is not counted is not denied.
func TestShowOfAVeryLongStream(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.exec(t, `SELECT outbox_append_batch(array_agg(CASE WHEN n % 100 = 0 THEN 'small' ELSE 'large' END), array_agg('t'::text), array_agg('x'::bytea))
		FROM generate_series(1, 9000) AS n`)
	small, err := b.op.Show(t.Context(), 5000)
	if err != nil || small.Behind != 40 || small.BehindMore || small.BlockedBy == nil || small.BlockedBy.Sequence != 100 || small.Next[0].Sequence != 5100 {
		t.Errorf("%+v, %v", small, err)
	}
	large, err := b.op.Show(t.Context(), 5001)
	if err != nil || large.Behind != 2970 || !large.BehindMore || large.BlockedBy == nil || large.BlockedBy.Sequence != 2001 || large.Next[0].Sequence != 5002 {
		t.Errorf("%+v, %v", large, err)
	}
}
