package inbox_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/message"
)

// tableRow is a row of the table in the package's documentation: what came before, what comes, what becomes of it.
type tableRow struct {
	name   string
	order  inbox.Order
	before []message.Message
	// broken is the version whose handler fails for good.
	broken   int64
	comes    message.Message
	status   inbox.Status
	findings inbox.Finding
	missing  int64
	result   string
	effects  []int64
	// purged: the records are past their retention.
	purged bool
}

// before makes a stream's messages.
func before(versions ...int64) (list []message.Message) {
	for _, v := range versions {
		list = append(list, event("s", v))
	}
	return list
}

func with(version int64, change func(*message.Message)) message.Message {
	return changed(event("s", version), change)
}

func raised(m *message.Message) { m.Generation = 1 }

// notRun are the rows in which the handler does not run.
func notRun() []tableRow {
	other := func(version int64) message.Message {
		return with(version, func(m *message.Message) { m.EventID = uuid.New() })
	}
	return []tableRow{
		{name: "1 repeat", before: before(1, 2), comes: event("s", 1), status: inbox.Repeat, result: "result 1", effects: []int64{1, 2}},
		{
			name: "1 requeued copy", before: before(1, 2), comes: with(2, raised),
			status: inbox.Repeat, result: "result 2", effects: []int64{1, 2},
		},
		{
			name: "1 copy of a former owner", before: []message.Message{with(1, func(m *message.Message) { m.Epoch = 7 })},
			comes: with(1, func(m *message.Message) { m.Epoch = 6 }), status: inbox.Repeat, findings: inbox.LowerEpoch, result: "result 1",
			effects: []int64{1},
		},
		{
			name: "2 repeat of the last, record purged", before: before(1, 2), purged: true, comes: event("s", 2),
			status: inbox.Repeat, effects: []int64{1, 2},
		},
		{
			name: "3 parked already", before: before(1, 2, 3), broken: 2, comes: event("s", 3),
			status: inbox.Waiting, findings: inbox.Gap, effects: []int64{1},
		},
		{
			name: "4 another event, recorded", before: before(1, 2, 3), comes: other(2),
			status: inbox.Dead, findings: inbox.Conflict | inbox.Reversal, effects: []int64{1, 2, 3},
		},
		{
			name: "4 another event at the end", before: before(1, 2), purged: true, comes: other(2),
			status: inbox.Dead, findings: inbox.Conflict, effects: []int64{1, 2},
		},
		{
			name: "5 late", before: before(1, 3), comes: event("s", 2),
			status: inbox.Outdated, findings: inbox.Reversal, effects: []int64{1, 3},
		},
		{
			name: "5 repeat past the retention", before: before(1, 2, 3), purged: true, comes: event("s", 2),
			status: inbox.Outdated, findings: inbox.Reversal, effects: []int64{1, 2, 3},
		},
		{
			name: "6 behind a failed one", before: before(1, 2), broken: 2, comes: event("s", 3),
			status: inbox.Waiting, findings: inbox.Gap, effects: []int64{1},
		},
	}
}

// run are those in which it does.
func run() []tableRow {
	return []tableRow{
		{name: "7 next", before: before(1), comes: event("s", 2), status: inbox.Applied, result: "result 2", effects: []int64{1, 2}},
		{name: "7 first", comes: event("s", 1), status: inbox.Applied, result: "result 1", effects: []int64{1}},
		{
			name: "8 gap", before: before(1), comes: event("s", 4),
			status: inbox.Applied, findings: inbox.Gap, missing: 2, result: "result 4", effects: []int64{1, 4},
		},
		{
			name: "8 joined late", comes: event("s", 4),
			status: inbox.Applied, findings: inbox.Gap, missing: 3, result: "result 4", effects: []int64{4},
		},
		{
			name: "8 sequence reversed", before: before(1), comes: with(2, func(m *message.Message) { m.Sequence = 50 }),
			status: inbox.Applied, findings: inbox.Reversal, result: "result 2", effects: []int64{1, 2},
		},
		{
			name: "8 behind a requeued one", before: []message.Message{with(1, raised)}, comes: event("s", 2),
			status: inbox.Applied, findings: inbox.LowerGeneration, result: "result 2", effects: []int64{1, 2},
		},
		{
			name: "8 after a resize", before: before(1),
			comes:  with(2, func(m *message.Message) { m.Generation, m.Partition, m.Sequence = 1, 9, 20 }),
			status: inbox.Applied, result: "result 2", effects: []int64{1, 2},
		},
		{
			name: "8 lower epoch", before: []message.Message{with(1, func(m *message.Message) { m.Epoch = 7 })},
			comes: with(2, func(m *message.Message) { m.Epoch = 6 }), status: inbox.Applied, findings: inbox.LowerEpoch, result: "result 2",
			effects: []int64{1, 2},
		},
		{
			name: "9 late, by ids", order: inbox.OrderIDs, before: before(1, 3), comes: event("s", 2),
			status: inbox.Applied, findings: inbox.Reversal, result: "result 2", effects: []int64{1, 3, 2},
		},
	}
}

func TestTheTable(t *testing.T) {
	t.Parallel()
	for _, row := range append(notRun(), run()...) {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t, func(c *inbox.Config) { c.Order = row.order })
			handle := func(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
				if m.Version == row.broken {
					return nil, inbox.Final(errors.New("broken"))
				}
				return apply(ctx, tx, m)
			}
			for _, m := range row.before {
				b.process(t, m, handle)
			}
			if row.purged {
				if _, err := b.pool.Exec(t.Context(), `DELETE FROM inbox_records`); err != nil {
					t.Fatal(err)
				}
			}
			o := b.process(t, row.comes, handle)
			if o.Status != row.status || o.Findings != row.findings || o.Missing != row.missing || string(o.Result) != row.result {
				t.Errorf("it is %s with findings %q, %d missing, result %q; want %s, %q, %d, %q",
					o.Status, o.Findings, o.Missing, o.Result, row.status, row.findings, row.missing, row.result)
			}
			if got := b.effects(t, "s"); !slices.Equal(got, row.effects) {
				t.Errorf("effects are %v, want %v", got, row.effects)
			}
		})
	}
}

func TestOneStreamIsDealtWithOneAfterTheOther(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.process(t, event("s", 1), apply) // the stream's row is there
	entered, leave := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(leave) })
	slow := func(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
		close(entered)
		<-leave
		return apply(ctx, tx, m)
	}
	var group sync.WaitGroup
	defer group.Wait()
	defer release()
	group.Go(func() { b.process(t, event("s", 2), slow) })
	<-entered
	// The same message by somebody else waits for the first and finds it recorded; another stream does not wait.
	group.Go(func() {
		if o := b.process(t, event("s", 2), apply); o.Status != inbox.Repeat || string(o.Result) != "result 2" {
			t.Errorf("the copy is %s with result %q", o.Status, o.Result)
		}
	})
	waitFor(t, b.pool, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`)
	if o := b.process(t, event("other", 1), apply); o.Status != inbox.Applied {
		t.Errorf("the other stream's message is %s", o.Status)
	}
	release()
	group.Wait()
	if got := b.effects(t, "s"); !slices.Equal(got, []int64{1, 2}) {
		t.Errorf("effects are %v", got)
	}
}

func TestABatchWithABrokenMessage(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	var calls []int64
	handle := func(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
		calls = append(calls, m.Version)
		if m.Stream == "a" && m.Version == 2 {
			_, err := tx.Exec(ctx, `SELECT 1/0`)
			return nil, err
		}
		return apply(ctx, tx, m)
	}
	var batch []message.Message
	for v := range int64(3) {
		batch = append(batch, event("a", v+1), event("b", v+1))
	}
	outcomes, err := b.box.ProcessBatch(t.Context(), append(batch, event("b", 1)), handle)
	if err != nil {
		t.Fatal(err)
	}
	var got []inbox.Status
	for _, o := range outcomes {
		got = append(got, o.Status)
	}
	want := []inbox.Status{inbox.Applied, inbox.Applied, inbox.Failed, inbox.Applied, inbox.Waiting, inbox.Applied, inbox.Repeat}
	if !slices.Equal(got, want) {
		t.Errorf("outcomes are %v, want %v", got, want)
	}
	if a, b := b.effects(t, "a"), b.effects(t, "b"); !slices.Equal(a, []int64{1}) || !slices.Equal(b, []int64{1, 2, 3}) {
		t.Errorf("effects are %v and %v", a, b)
	}
}

func TestAHandlerThatPassesOverAnErrorOfTheDatabase(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	handle := func(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
		if m.Stream == "careless" {
			_, _ = tx.Exec(ctx, `SELECT 1/0`)
			return nil, nil
		}
		return apply(ctx, tx, m)
	}
	outcomes, err := b.box.ProcessBatch(t.Context(), []message.Message{event("a", 1), event("careless", 1), event("b", 1)}, handle)
	if err != nil {
		t.Fatal(err)
	}
	if outcomes[0].Status != inbox.Applied || outcomes[1].Status != inbox.Failed || outcomes[2].Status != inbox.Applied {
		t.Errorf("outcomes are %v", outcomes)
	}
}

func TestMalformedMessagesAreRefused(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for _, m := range []message.Message{
		{},
		changed(event("s", 1), func(m *message.Message) { m.Version = 0 }),
		changed(event("s", 1), func(m *message.Message) { m.Stream = "a\x00b" }),
		changed(event("s", 1), func(m *message.Message) { m.Stream = "\xff" }),
	} {
		if _, err := b.box.Process(t.Context(), m, apply); !errors.Is(err, message.ErrMalformed) {
			t.Errorf("%+v gives %v", m, err)
		}
	}
}
