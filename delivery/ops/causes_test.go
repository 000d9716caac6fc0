package ops_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/partition"
)

// told writes causes as "count topic type class family example".
func told(causes ops.Causes) (list []string) {
	for _, c := range causes.List {
		list = append(list, fmt.Sprintf("%d %s %s %s %s %d", c.Count, c.Topic, c.Type, c.Class, c.Family, c.Example))
	}
	return list
}

// A long error is cut, also behind a space: the cause has none there, nor a line's end, so that a form can carry it.
func TestACauseHasNoSpaceAtItsEnd(t *testing.T) {
	t.Parallel()
	b := setup(t, 8)
	family := strings.Repeat("x", 196)
	b.kill(t, family+"\ny\n 1", b.append(t, "s-1"))
	found, err := b.op.Causes(t.Context(), ops.Filter{ErrorFamily: family + " y"}, time.Minute)
	if want := []string{"1 default thing.done  " + family + " y 1"}; err != nil || !slices.Equal(told(found), want) {
		t.Errorf("found %q, want %q: %v", told(found), want, err)
	}
}

// What differs in numbers, ids and quoted text alone is one cause; topic and type tell causes apart.
func TestTheDeadAreGroupedByCause(t *testing.T) {
	t.Parallel()
	b := setup(t, 8)
	for n := range 3 {
		b.kill(t, fmt.Sprintf(`order-%d: payload "it %d" of %d bytes is larger than max_payload`, n, n, 1<<20+n), b.append(t, fmt.Sprintf("s-%d", n)))
	}
	other := b.append(t, "s-9", `topic => 'shop'`)
	b.kill(t, `order-7: payload "" of 9 bytes is larger than max_payload`, other)
	b.kill(t, "subject refused", b.append(t, "s-10"))
	b.kill(t, "", b.append(t, "s-11"))
	b.fail(t, "subject refused", b.append(t, "s-12"))
	b.exec(t, `UPDATE outbox SET failures = jsonb_build_array(jsonb_build_object('class', 'temporary'), jsonb_build_object('class',
		CASE WHEN global_sequence = 2 THEN 'temporary' ELSE 'permanent' END)) WHERE global_sequence <= 4`)
	b.exec(t, `UPDATE outbox SET dead_at = '2026-01-01T00:00:00Z' WHERE global_sequence = 3`)

	found, err := b.op.Causes(t.Context(), ops.Filter{}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	const family = "#: payload # of # bytes is larger than max_payload"
	want := []string{
		"3 default thing.done mixed " + family + " 1", "1 shop thing.done permanent " + family + " 4",
		"1 default thing.done  subject refused 5", "1 default thing.done   6",
	}
	if !slices.Equal(told(found), want) || found.More || found.Others != 0 {
		t.Errorf("found %q, more %v, others %d, want %q", told(found), found.More, found.Others, want)
	}
	first := found.List[0]
	if want := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC); !first.First.Equal(want) || !first.Last.After(want) {
		t.Errorf("they died from %s to %s", first.First, first.Last)
	}
	if want := `order-0: payload "it 0" of 1048576 bytes is larger than max_payload`; first.Error != want {
		t.Errorf("the example's error is %q", first.Error)
	}

	// What is shown as a group is what is changed as one.
	of := ops.Filter{Topic: first.Topic, Type: first.Type, ErrorFamily: first.Family}
	l, err := b.op.List(t.Context(), of, ops.Page{Within: time.Minute})
	if err != nil || len(l.Messages) != 3 {
		t.Errorf("listed %d messages of the cause: %v", len(l.Messages), err)
	}
	r, err := b.op.Requeue(t.Context(), ops.Command{Selection: ops.Selection{Filter: of}, Actor: "ann"})
	if err != nil || r.Count != first.Count {
		t.Errorf("requeued %d: %v", r.Count, err)
	}
	if text := one[string](t, b, `SELECT target -> 'selection' ->> 'error_family' FROM outbox_audit LIMIT 1`); text != family {
		t.Errorf("the audit says %q", text)
	}
	found, err = b.op.Causes(t.Context(), ops.Filter{Topic: "default", ErrorContains: "subj"}, 0)
	if err != nil || !slices.Equal(told(found), want[2:3]) {
		t.Errorf("filtered %q, %v", told(found), err)
	}
}

// More rows than one step looks at, of several partitions, add up, and the rarest causes are counted beyond the first hundred.
func TestCausesAddUpOverManySteps(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	b.appendMany(t, 7000)
	b.exec(t, `UPDATE outbox SET parked = true, dead_at = clock_timestamp(), last_error = CASE WHEN global_sequence <= 130
		THEN 'only ' || chr(97 + (global_sequence / 26)::int) || chr(97 + (global_sequence % 26)::int) ELSE 'of ' || global_sequence END`)
	found, err := b.op.Causes(t.Context(), ops.Filter{}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.List) != ops.MostCauses || found.List[0].Count != 7000-130 || found.List[0].Family != "of #" || found.Others != 31 || found.More {
		t.Errorf("%d causes, the first %v, %d others, more %v", len(found.List), found.List[0], found.Others, found.More)
	}
	found, err = b.op.Causes(t.Context(), ops.Filter{Partitions: []partition.ID{0, 1, 3}}, time.Minute)
	if want := one[int64](t, b, `SELECT count(*) FROM outbox WHERE partition_key <> 2 AND global_sequence > 130`); err != nil || found.List[0].Count != want {
		t.Errorf("in three partitions %v, %v, want %d", found.List[0], err, want)
	}
	if found, err = b.op.Causes(t.Context(), ops.Filter{}, time.Nanosecond); err != nil || !found.More || len(found.List) > 0 {
		t.Errorf("without time: %v, %v", found, err)
	}
}

func TestCausesRefuse(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	for field, f := range map[string]ops.Filter{
		ops.FieldState: {States: []ops.State{ops.Dead}}, ops.FieldSequence: {Sequence: 1}, ops.FieldFamily: {ErrorFamily: "\xff"},
	} {
		_, err := b.op.Causes(t.Context(), f, 0)
		wantInput(t, b, err, field, nil)
	}
	_, err := b.op.Causes(t.Context(), ops.Filter{}, 2*time.Minute)
	wantInput(t, b, err, ops.FieldWithin, nil)
}
