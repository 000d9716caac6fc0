package ops_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/partition"
)

// history fills an outbox with messages in every state that there is, in an
// order drawn from the seed: 400 of 12 streams, some replayed, lost or forgotten.
func history(t *testing.T, partitions int, seed uint64) *bundle {
	t.Helper()
	b := setup(t, partitions)
	random := rand.New(rand.NewPCG(seed, 0))
	var todo []int64
	for i := range 400 {
		topic := []string{"default", "shop"}[random.IntN(2)]
		publish := fmt.Sprintf("publish => %t", random.IntN(20) > 0)
		sequence := one[int64](t, b, `SELECT outbox_append($1, $2, '{}', topic => $3, `+publish+`, tenant_id => $4)`,
			fmt.Sprintf("s-%d", i%12), []string{"made", "lost"}[random.IntN(2)], topic, tenantOf(i%12))
		if strings.HasSuffix(publish, "true") {
			todo = append(todo, sequence)
		}
	}
	random.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
	take := func(n int) []int64 {
		taken := todo[:n]
		todo = todo[n:]
		return taken
	}
	b.publish(t, take(20)...)
	b.exec(t, `DELETE FROM outbox_deliveries`) // the retention's
	dead := take(60)
	b.kill(t, "e", dead...)
	for i, settle := range []func(ops.Command) (ops.Changed, error){
		func(c ops.Command) (ops.Changed, error) { return b.op.Skip(t.Context(), c) },
		func(c ops.Command) (ops.Changed, error) { return b.op.Discard(t.Context(), c) },
	} {
		if _, err := settle(command(dead[20*i : 20*i+20]...)); err != nil {
			t.Fatal(err)
		}
	}
	b.fail(t, "for now", take(20)...)
	b.block(t, take(40)...)
	b.park(t, `available_at = clock_timestamp() + interval '1 hour', scheduled_for = clock_timestamp() + interval '1 hour'`, take(10)...)
	again := take(30)
	for range 8 {
		b.publish(t, take(20)...)
	}
	b.publish(t, again...)
	// A replay: ten wait, ten were published again, the others were lost by the
	// stream; of those every second one waits again.
	b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id, topic, generation)
		SELECT global_sequence, partition_key, stream_id, topic, 1 FROM outbox_messages WHERE global_sequence = ANY ($1)`, again)
	b.publish(t, again[10:]...)
	b.exec(t, `UPDATE outbox_deliveries SET lost_after = 0 WHERE $1 = ANY (sequences) AND generations IS NOT NULL`, again[29])
	b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id, topic, generation)
		SELECT e.sequence, d.partition_key, e.stream_id, e.topic, 2 FROM events AS e, outbox_deliveries AS d
		WHERE d.lost_after = 0 AND e.sequence = ANY (d.sequences) AND e.sequence % 2 = 0`)
	b.exec(t, `UPDATE outbox SET available_at = 'infinity' WHERE global_sequence = $1`, again[0])
	return b
}

// tenantOf is the tenant of that stream, so that a message's stream tells it.
func tenantOf(stream int) string { return fmt.Sprintf("tenant-%d", stream%3) }

// view reads everything by way of outbox_messages, which List must agree with.
func view(t *testing.T, b *bundle) []ops.Message {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), `SELECT m.global_sequence, m.partition_key, m.stream_id, m.topic, m.state, m.attempts, m.generation,
		m.published_at, m.stream_sequence, coalesce(m.last_error, ''), e.event_id, e.event_type, e.stream_version, e.recorded_at
		FROM outbox_messages AS m JOIN events AS e ON e.sequence = m.global_sequence ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (ops.Message, error) {
		var m ops.Message
		return m, row.Scan(&m.Sequence, &m.Partition, &m.Stream, &m.Topic, &m.State, &m.Attempts, &m.Generation,
			&m.PublishedAt, &m.StreamSequence, &m.LastError, &m.EventID, &m.Type, &m.StreamVersion, &m.RecordedAt)
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// text is what both know of a message.
func text(m ops.Message) string {
	published, place := "-", "-"
	if m.PublishedAt != nil {
		published = m.PublishedAt.UTC().String()
	}
	if m.StreamSequence != nil {
		place = fmt.Sprint(*m.StreamSequence)
	}
	return fmt.Sprint(m.Sequence, m.Partition, m.Stream, m.Topic, m.State, m.Attempts, m.Generation, published, place, m.LastError,
		m.EventID, m.Type, m.StreamVersion, m.RecordedAt.UTC())
}

// all reads a list to its end.
func all(t *testing.T, b *bundle, f ops.Filter, p ops.Page) []ops.Message {
	t.Helper()
	var list []ops.Message
	for {
		got, err := b.op.List(t.Context(), f, p)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Messages) > max(p.Limit, 100) {
			t.Fatalf("%d messages on a page of %d", len(got.Messages), p.Limit)
		}
		list = append(list, got.Messages...)
		if got.Next == 0 {
			return list
		}
		if !p.Descending && got.Next <= p.After || p.Descending && p.After != 0 && got.Next >= p.After {
			t.Fatalf("the page after %d is followed by one after %d", p.After, got.Next)
		}
		p.After = got.Next
	}
}

// Whatever the filter, the page and the direction: a list shows what the view
// shows.
func TestListsAgreeWithTheView(t *testing.T) {
	t.Parallel()
	b := history(t, 8, 1)
	want := view(t, b)
	states := map[ops.State]int{}
	for _, m := range want {
		states[m.State]++
	}
	if len(states) != len(ops.States()) {
		t.Fatalf("the test lacks a state: %v", states)
	}
	middle := want[len(want)/2]
	filters := []ops.Filter{
		{},
		{States: []ops.State{ops.Dead, ops.Published}},
		{States: []ops.State{ops.Skipped, ops.Discarded}},
		{States: []ops.State{ops.Pending, ops.Skipped}},
		{Stream: "s-3"},
		{Topic: "shop", Type: "lost"},
		{Tenant: "tenant-1"},
		{Tenant: "tenant-2", States: []ops.State{ops.Dead, ops.Skipped}},
		{Tenant: "nobody"},
		{Partitions: []partition.ID{1, 5}, Type: "made"},
		{Partitions: []partition.ID{2}, States: []ops.State{ops.Discarded}},
		{EventID: middle.EventID},
		{EventID: uuid.Max},
		{Since: middle.RecordedAt, Stream: "s-5"},
		{Until: middle.RecordedAt, States: []ops.State{ops.Published, ops.Failed}},
		{ErrorContains: "now"},
		{Partitions: []partition.ID{}, Topic: "none"},
	}
	for _, s := range ops.States() {
		filters = append(filters, ops.Filter{States: []ops.State{s}})
	}
	for _, f := range filters {
		wanted := slices.DeleteFunc(slices.Clone(want), func(m ops.Message) bool { return !matches(f, m) })
		for _, p := range []ops.Page{
			{Limit: 7},
			{Limit: 7, Descending: true},
			{Limit: 1000},
			{Limit: 1000, Descending: true},
			{},
			{Limit: 20, Within: 1},
			{Limit: 1000, Within: 1, Descending: true},
		} {
			slices.SortFunc(wanted, func(a, b ops.Message) int { return cmp.Compare(a.Sequence, b.Sequence) })
			if p.Descending {
				slices.Reverse(wanted)
			}
			compare(t, fmt.Sprintf("%+v %+v", f, p), all(t, b, f, p), wanted)
		}
	}
}

func matches(f ops.Filter, m ops.Message) bool {
	stream, err := strconv.Atoi(strings.TrimPrefix(m.Stream, "s-"))
	return err == nil && (f.Tenant == "" || f.Tenant == tenantOf(stream)) && (len(f.States) == 0 || slices.Contains(f.States, m.State)) &&
		(len(f.Partitions) == 0 || slices.Contains(f.Partitions, m.Partition)) &&
		(f.Stream == "" || f.Stream == m.Stream) && (f.Topic == "" || f.Topic == m.Topic) && (f.Type == "" || f.Type == m.Type) &&
		(f.EventID == uuid.Nil || f.EventID == m.EventID) && strings.Contains(m.LastError, f.ErrorContains) &&
		(f.Since.IsZero() || !m.RecordedAt.Before(f.Since)) && (f.Until.IsZero() || m.RecordedAt.Before(f.Until))
}

func compare(t *testing.T, what string, got, want []ops.Message) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d messages, want %d", what, len(got), len(want))
		return
	}
	for i := range got {
		if text(got[i]) != text(want[i]) {
			t.Errorf("%s:\n got %s\nwant %s", what, text(got[i]), text(want[i]))
			return
		}
	}
}

// More events than one look takes in, the oldest of them forgotten: pages may be
// empty and still lead on, and what is forgotten is not looked at.
func TestListsOfManyEvents(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.appendMany(t, 12000)
	every := one[[]int64](t, b, `SELECT array_agg(sequence ORDER BY sequence) FROM events`)
	for i := 0; i < len(every); i += 1000 {
		b.publish(t, every[i:i+1000]...)
	}
	b.exec(t, `DELETE FROM outbox_deliveries WHERE last_sequence <= $1`, every[999])
	want := view(t, b)
	for _, p := range []ops.Page{{Limit: 3000}, {Limit: 3000, Descending: true}} {
		if got := all(t, b, ops.Filter{}, p); len(got) != 11000 {
			t.Errorf("%+v: %d messages, want 11000", p, len(got))
		}
		if got := all(t, b, ops.Filter{Stream: "s-7"}, p); len(got) != 220 {
			t.Errorf("%+v: %d messages of a stream, want 220", p, len(got))
		}
	}
	compare(t, "all", all(t, b, ops.Filter{}, ops.Page{Limit: 4000}), want)
	if got := all(t, b, ops.Filter{States: []ops.State{ops.Dead}}, ops.Page{}); len(got) != 0 {
		t.Errorf("%d dead messages", len(got))
	}
	first, err := b.op.List(t.Context(), ops.Filter{}, ops.Page{Limit: 1, Within: time.Minute})
	if err != nil || len(first.Messages) != 1 || first.Messages[0].Sequence != every[1000] || first.Next != every[1000] {
		t.Errorf("first page %+v, %v", first, err)
	}
}

func TestListsThatAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	for field, c := range map[string]struct {
		filter ops.Filter
		page   ops.Page
	}{
		ops.FieldState:     {ops.Filter{States: []ops.State{"odd"}}, ops.Page{}},
		ops.FieldLimit:     {ops.Filter{}, ops.Page{Limit: ops.MaxLimit + 1}},
		ops.FieldAfter:     {ops.Filter{}, ops.Page{After: -1}},
		ops.FieldPartition: {ops.Filter{Partitions: []partition.ID{-1}}, ops.Page{}},
		ops.FieldError:     {ops.Filter{ErrorContains: "\x00"}, ops.Page{}},
	} {
		_, err := b.op.List(t.Context(), c.filter, c.page)
		wantInput(t, b, err, field, nil)
	}
	if _, err := ops.New(t.Context(), b.pool, `a"b`, pgstore.Relation{}); err == nil {
		t.Error("a schema with a quote was accepted")
	}
}

// A view with the required columns alone is as good as the table.
func TestOtherEventStore(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.exec(t, `CREATE VIEW mine AS SELECT sequence, event_id, stream_id, stream_version, event_type,
		convert_from(payload, 'UTF8') AS payload, metadata, tenant_id, recorded_at FROM events`)
	dead, published := b.append(t, "s"), b.append(t, "t")
	b.kill(t, "e", dead)
	b.publish(t, published)
	op, err := ops.New(t.Context(), b.pool, "public", pgstore.Relation{Name: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := op.List(t.Context(), ops.Filter{Since: time.Unix(0, 0)}, ops.Page{Within: time.Minute})
	if err != nil || len(l.Messages) != 2 || l.Messages[0].Topic != "default" || l.Messages[1].Topic != "" {
		t.Errorf("%+v, %v", l, err)
	}
	d, err := op.Show(t.Context(), published)
	if err != nil || d.State != ops.Published || d.Event.OccurredAt != nil || d.Event.AuditOnly {
		t.Errorf("%+v, %v", d, err)
	}
	if payload, err := op.Payload(t.Context(), dead); err != nil || string(payload) != `{"n": 1}` {
		t.Errorf("payload %s, %v", payload, err)
	}
	for _, name := range []string{"nothing", "outbox"} {
		if _, err := ops.New(t.Context(), b.pool, "public", pgstore.Relation{Name: name}); err == nil {
			t.Errorf("the relation %s was accepted", name)
		}
	}
}

// Of a view that fails for some rows the others are shown, and which ones fail.
func TestAViewMayFailForSomeRows(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.exec(t, `CREATE VIEW mine AS SELECT sequence, event_id, stream_id, stream_version, CASE WHEN stream_id = 'bad' THEN (1 / (stream_version - stream_version))::text ELSE event_type END AS event_type,
		topic, payload, metadata, tenant_id, recorded_at FROM events`)
	var sequences []int64
	for n := range 4 {
		for _, stream := range []string{"good", "bad"} {
			sequences = append(sequences, b.append(t, fmt.Sprint(stream, map[bool]string{true: fmt.Sprint(n)}[stream == "good"])))
		}
	}
	b.publish(t, sequences[0], sequences[1])
	b.kill(t, "boom", sequences[2], sequences[3])
	op, err := ops.New(t.Context(), b.pool, "public", pgstore.Relation{Name: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []ops.Page{{}, {Descending: true}, {Limit: 3}, {After: sequences[0]}} {
		l, err := op.List(t.Context(), ops.Filter{}, p)
		if err != nil {
			t.Fatalf("%+v: %v", p, err)
		}
		if want := cmp.Or(p.Limit, len(sequences)); p.After == 0 && len(l.Messages) < want || p.After != 0 && len(l.Messages) != want-1 {
			t.Errorf("%+v: %d messages of %d", p, len(l.Messages), want)
		}
		for _, m := range l.Messages {
			bad, said := slices.Index(sequences, m.Sequence)%2 == 1, strings.Contains(m.LastError, "division by zero")
			if dead := m.Sequence == sequences[3]; bad != said && !dead || bad != (m.Type == "") {
				t.Errorf("%+v: message %d has the type %q and the error %q", p, m.Sequence, m.Type, m.LastError)
			}
		}
	}
	d, err := op.Show(t.Context(), sequences[5])
	if err != nil || d.State != ops.Pending || !strings.Contains(d.LastError, fmt.Sprintf("event %d cannot be read", sequences[5])) {
		t.Errorf("shown %+v, %v", d, err)
	}
	if d, err = op.Show(t.Context(), sequences[0]); err != nil || d.State != ops.Published || d.LastError != "" {
		t.Errorf("shown %+v, %v", d, err)
	}
	if l, err := op.List(t.Context(), ops.Filter{Stream: "bad"}, ops.Page{}); err != nil || len(l.Messages) < 3 {
		t.Errorf("of the stream: %+v, %v", l, err)
	}
	if c, err := op.Causes(t.Context(), ops.Filter{}, time.Second); err != nil || len(c.List) != 2 {
		t.Errorf("causes %+v, %v", c, err)
	}
	c := ops.Command{Selection: ops.Selection{State: ops.Dead, Filter: ops.Filter{Type: "thing.done"}}, Actor: "alice"}
	for _, c.DryRun = range []bool{true, false} {
		if changed, err := op.Requeue(t.Context(), c); err != nil || changed.Count != 1 {
			t.Errorf("requeued %+v, %v", changed, err)
		}
	}
	if f, err := op.Flows(t.Context()); err != nil || f.Sampled != 2 {
		t.Errorf("flows %+v, %v", f, err)
	}
}

// Both parts of a list end before their sources do.
func TestListsOfManyEventsOfBothKinds(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.appendMany(t, 7000)
	b.publish(t, one[[]int64](t, b, `SELECT array_agg(sequence) FROM events WHERE sequence % 10 <> 0`)...)
	want := view(t, b)
	for _, limit := range []int{100, 300, 6000} {
		compare(t, fmt.Sprint("up by ", limit), all(t, b, ops.Filter{}, ops.Page{Limit: limit}), want)
	}
	slices.Reverse(want)
	compare(t, "down", all(t, b, ops.Filter{}, ops.Page{Limit: 300, Descending: true}), want)
}

// One part looks further than the other without finding anything.
func TestListsThatFindNothingInOnePart(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.appendMany(t, 7000)
	b.publish(t, one[[]int64](t, b, `SELECT array_agg(global_sequence) FROM outbox WHERE partition_key = 1`)...)
	f := ops.Filter{Partitions: []partition.ID{0}}
	want := slices.DeleteFunc(view(t, b), func(m ops.Message) bool { return m.Partition != 0 })
	compare(t, "up", all(t, b, f, ops.Page{Limit: 300}), want)
	slices.Reverse(want)
	compare(t, "down", all(t, b, f, ops.Page{Limit: 300, Descending: true}), want)
}
