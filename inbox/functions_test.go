package inbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/message"
)

// onWire gives a message the headers that it has in JetStream.
func onWire(m message.Message) message.Message {
	m.Header = map[string][]string{
		message.HeaderEventID: {m.EventID.String()}, message.HeaderStream: {m.Stream}, message.HeaderType: {m.Type},
		message.HeaderStreamVersion: {strconv.FormatInt(m.Version, 10)}, message.HeaderSequence: {strconv.FormatInt(m.Sequence, 10)},
		message.HeaderPartition: {strconv.Itoa(m.Partition)}, message.HeaderGeneration: {strconv.Itoa(m.Generation)}, "Shop": {"north"},
	}
	return m
}

// headers are what a consumer in another language gives to the functions: the first value of each.
func headers(t *testing.T, m message.Message) string {
	t.Helper()
	first := map[string]string{}
	for name, values := range m.Header {
		first[name] = values[0]
	}
	text, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// answer is what inbox_begin says.
type answer struct {
	verdict, findings string
	result            []byte
}

// begin calls inbox_begin, makes the effect if the message is to run, and stores the result.
func begin(t *testing.T, tx pgx.Tx, m message.Message, parked *int64) (a answer) {
	t.Helper()
	var findings *string
	err := tx.QueryRow(t.Context(), `SELECT verdict, result, findings FROM inbox_begin('test', $1, $2, $3, $4, $5)`,
		m.Subject, int64(m.StreamSequence), headers(t, m), m.Payload, parked).Scan(&a.verdict, &a.result, &findings)
	if err != nil {
		t.Fatal(err)
	}
	if findings != nil {
		a.findings = *findings
	}
	if a.verdict == "run" {
		result, err := apply(t.Context(), tx, m)
		if err == nil {
			_, err = tx.Exec(t.Context(), `SELECT inbox_done('test', $1, $2)`, headers(t, m), result)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// receive is begin in a transaction of its own; with an error that is rolled back.
func (b *bundle) receive(t *testing.T, m message.Message, parked *int64, end error) (a answer) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		a = begin(t, tx, m, parked)
		return end
	})
	if !errors.Is(err, end) {
		t.Fatal(err)
	}
	return a
}

// fail tells that the effect failed.
func (b *bundle) fail(t *testing.T, m message.Message, parked *int64, options string) (status string) {
	t.Helper()
	err := b.pool.QueryRow(t.Context(), `SELECT inbox_failed('test', $1, $2, $3, $4, 'broken', parked => $5`+options+`)`,
		m.Subject, int64(m.StreamSequence), headers(t, m), m.Payload, parked).Scan(&status)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// next asks for a parked message that is due; nil when there is none.
func (b *bundle) next(t *testing.T, process uuid.UUID) (*int64, message.Message) {
	t.Helper()
	var parked, sequence int64
	var subject string
	var first map[string]string
	var payload []byte
	err := b.pool.QueryRow(t.Context(), `SELECT * FROM inbox_next('test', $1, max_attempts => 3)`, process).
		Scan(&parked, &subject, &sequence, &first, &payload)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, message.Message{}
	}
	if err != nil {
		t.Fatal(err)
	}
	h := map[string][]string{}
	for name, value := range first {
		h[name] = []string{value}
	}
	m, err := message.Parse(subject, uint64(sequence), h, payload)
	if err != nil {
		t.Fatal(err)
	}
	return &parked, m
}

// due lets the time pass until everything that may be tried is due.
func (b *bundle) due(t *testing.T) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), `UPDATE inbox_parked SET due_at = clock_timestamp() WHERE due_at IS NOT NULL`); err != nil {
		t.Fatal(err)
	}
}

var errUndone = errors.New("undone")

func TestTheFunctionsRunAMessageOnce(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	first, third := onWire(event("s", 1)), onWire(event("s", 3))
	if a := b.receive(t, first, nil, errUndone); a.verdict != "run" {
		t.Errorf("a new message is %+v", a)
	}
	for n, want := range []answer{{verdict: "run"}, {verdict: "repeat", result: []byte("result 1")}} {
		if a := b.receive(t, first, nil, nil); a.verdict != want.verdict || string(a.result) != string(want.result) {
			t.Errorf("time %d gives %+v", n, a)
		}
	}
	if a := b.receive(t, third, nil, nil); a.verdict != "run" || a.findings != "gap" {
		t.Errorf("a gap gives %+v", a)
	}
	if a := b.receive(t, onWire(event("s", 2)), nil, nil); a.verdict != "outdated" || a.findings != "reversal" {
		t.Errorf("a late one gives %+v", a)
	}
	if o := b.process(t, third, apply); o.Status != inbox.Repeat || string(o.Result) != "result 3" {
		t.Errorf("in Go it is %s %q", o.Status, o.Result)
	}
	if got := b.effects(t, "s"); !slices.Equal(got, []int64{1, 3}) {
		t.Errorf("effects are %v", got)
	}
	_, err := b.pool.Exec(t.Context(), `SELECT inbox_done('test', $1, 'another')`, headers(t, first))
	if err == nil || !strings.Contains(err.Error(), "no message without a result") {
		t.Errorf("a second result gives %v", err)
	}
}

func TestTheFunctionsParkWhatFails(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	one, two := uuid.New(), uuid.New()
	bad := onWire(event("s", 1))
	b.receive(t, bad, nil, errUndone)
	if status := b.fail(t, bad, nil, ""); status != "failed" {
		t.Errorf("it is %s", status)
	}
	if a := b.receive(t, onWire(event("s", 2)), nil, nil); a.verdict != "waiting" {
		t.Errorf("the one behind it is %+v", a)
	}
	if a := b.receive(t, onWire(event("other", 1)), nil, nil); a.verdict != "run" {
		t.Errorf("another stream's is %+v", a)
	}
	if a := b.receive(t, bad, nil, nil); a.verdict != "waiting" {
		t.Errorf("a copy of a parked one is %+v", a)
	}
	if parked, _ := b.next(t, one); parked != nil {
		t.Error("it is tried again at once")
	}
	b.due(t)
	parked, m := b.next(t, one)
	if parked == nil || m.EventID != bad.EventID || string(m.Payload) != string(bad.Payload) || m.Header.Get("Shop") != "north" {
		t.Fatalf("what is due is %+v", m)
	}
	if a := b.receive(t, m, parked, errUndone); a.verdict != "run" {
		t.Errorf("in its turn it is %+v", a)
	}
	if status := b.fail(t, m, parked, ", max_attempts => 2"); status != "dead" {
		t.Errorf("the second failure makes it %s", status)
	}
	b.due(t)
	if parked, m := b.next(t, one); parked != nil {
		t.Errorf("behind a dead one this is due: %+v", m)
	}
	if n, err := b.box.Requeue(t.Context()); n != 1 || err != nil { // by the command
		t.Fatalf("%d requeued, %v", n, err)
	}
	for want := range int64(2) {
		parked, m := b.next(t, two)
		if parked == nil || m.Version != want+1 {
			t.Fatalf("version %d is due, want %d", m.Version, want+1)
		}
		if a := b.receive(t, m, parked, nil); a.verdict != "run" {
			t.Errorf("version %d is %+v", m.Version, a)
		}
		if a := b.receive(t, m, parked, nil); a.verdict != "repeat" { // handed out a second time meanwhile
			t.Errorf("version %d is then %+v", m.Version, a)
		}
	}
	if a := b.receive(t, onWire(event("s", 3)), nil, nil); a.verdict != "run" {
		t.Errorf("the next one is %+v", a)
	}
	if got := b.effects(t, "s"); !slices.Equal(got, []int64{1, 2, 3}) {
		t.Errorf("effects are %v", got)
	}
}

// A message that its consumers do not come back from is dead in the end; one process that is asked again has come back.
func TestTheFunctionsCountEndsOfProcesses(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	bad := onWire(event("s", 1))
	b.fail(t, bad, nil, "")
	for range 2 {
		process := uuid.New()
		for range 3 {
			b.due(t)
			if parked, _ := b.next(t, process); parked == nil {
				t.Fatal("nothing is due")
			}
		}
	}
	b.due(t)
	if parked, _ := b.next(t, uuid.New()); parked != nil {
		t.Error("it is begun although nobody came back from it twice")
	}
	dead, err := b.box.Dead(t.Context(), 10)
	if err != nil || len(dead) != 1 || dead[0].Attempts != 3 || !strings.Contains(dead[0].Reason, "ended each time") {
		t.Errorf("dead are %+v, %v", dead, err)
	}
}

func TestTheFunctionsBuryConflictsAndKeepWhatIsMalformed(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.receive(t, onWire(event("s", 1)), nil, nil)
	other := onWire(changed(event("s", 1), func(m *message.Message) { m.EventID, m.Generation = uuid.New(), 1 }))
	if a := b.receive(t, other, nil, nil); a.verdict != "conflict" || a.findings != "conflict" {
		t.Errorf("a conflict is %+v", a)
	}
	if a := b.receive(t, onWire(event("s", 2)), nil, nil); a.verdict != "waiting" {
		t.Errorf("what is behind it is %+v", a)
	}
	for sequence, change := range map[uint64]func(message.Message){
		1: func(m message.Message) { m.Header.Set(message.HeaderEventID, "none") },
		2: func(m message.Message) { m.Header.Del(message.HeaderStream) },
		3: func(m message.Message) { m.Header.Set(message.HeaderStreamVersion, "0") },
		4: func(m message.Message) { m.Header.Set(message.HeaderSequence, "99999999999999999999") },
		5: func(m message.Message) { m.Header.Set(message.HeaderGeneration, "2147483648") },
		6: func(m message.Message) { m.Header.Set(message.HeaderStream, strings.Repeat("x", message.MaxKey+1)) },
		7: func(m message.Message) { m.Header.Set(message.HeaderPartition, "-1") },
	} {
		m := onWire(changed(event("s", 9), func(m *message.Message) { m.StreamSequence = sequence }))
		change(m)
		if _, err := message.Parse(m.Subject, sequence, m.Header, m.Payload); err == nil && sequence != 6 {
			t.Errorf("Go reads %v", m.Header)
		}
		if a := b.receive(t, m, nil, nil); a.verdict != "malformed" {
			t.Errorf("%v is %+v", m.Header, a)
		}
	}
	for query, want := range map[string]int{
		`SELECT count(*) FROM inbox_malformed`: 7, `SELECT count(*) FROM inbox_parked WHERE state = 'dead'`: 1, `SELECT count(*) FROM effects`: 1,
	} {
		var n int
		if err := b.pool.QueryRow(t.Context(), query).Scan(&n); err != nil || n != want {
			t.Errorf("%s gives %d, %v", query, n, err)
		}
	}
	_, err := b.pool.Exec(t.Context(), `SELECT inbox_begin('test', '', 1, '{"Outbox-Event-Id": ["x"]}', NULL), inbox_begin('test', '', 2, '[]', NULL),
		inbox_begin('test', '', 3, NULL, NULL)`)
	if err != nil {
		t.Errorf("headers of other forms give %v", err)
	}
}

// What one language parks another runs: consumers of one name may be both.
func TestGoAndTheFunctionsShareWhatIsParked(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(c *inbox.Config) { c.BackoffBase, c.BackoffMax = time.Hour, time.Hour })
	broken := func(context.Context, pgx.Tx, message.Message) ([]byte, error) { return nil, errors.New("broken") }
	b.process(t, onWire(event("go", 1)), broken)
	b.fail(t, onWire(event("sql", 1)), nil, "")
	b.receive(t, onWire(event("sql", 2)), nil, nil)
	b.due(t)
	process := uuid.New()
	if parked, m := b.next(t, process); parked == nil || m.Stream != "go" || b.receive(t, m, parked, nil).verdict != "run" {
		t.Errorf("the functions do not run what Go parked: %+v", m)
	}
	if n, err := b.box.RetryDue(t.Context(), 10, func(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
		if m.Type != "tested" || m.Subject != "events.test.tested" || string(m.Payload) != "{}" || m.Header.Get("Shop") != "north" {
			t.Errorf("what the functions parked is %+v", m)
		}
		return apply(ctx, tx, m)
	}); n != 2 || err != nil {
		t.Errorf("Go tried %d of the functions' two, %v", n, err)
	}
	if got := b.effects(t, "sql"); !slices.Equal(got, []int64{1, 2}) {
		t.Errorf("effects are %v", got)
	}
}

// Nobody who may create in a schema decides what a function calls, and only who is granted it runs it.
func TestTheFunctionsHaveAFixedPath(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	rows, err := b.pool.Query(t.Context(), `
		SELECT proname, 'search_path=pg_catalog, pg_temp' = ANY (proconfig) AND NOT prosecdef,
		       EXISTS (SELECT FROM aclexplode(coalesce(proacl, acldefault('f', proowner))) AS a WHERE a.grantee <> proowner)
		  FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proname LIKE 'inbox\_%'`)
	if err != nil {
		t.Fatal(err)
	}
	var name string
	var fixed *bool
	var granted bool
	found := 0
	_, err = pgx.ForEachRow(rows, []any{&name, &fixed, &granted}, func() error {
		if found++; fixed == nil || !*fixed || granted {
			t.Errorf("%s: its path is fixed %t, others may run it %t", name, fixed != nil && *fixed, granted)
		}
		return nil
	})
	if err != nil || found < 11 {
		t.Errorf("%d functions, %v", found, err)
	}
}
