package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// operate runs the program as an operator would and returns what it printed.
func operate(t *testing.T, c *clustertest.Cluster, args ...string) string {
	t.Helper()
	p := clustertest.Launch(t, strings.Join(args, " "), c.Environment(), args...)
	if code := p.Exit(t); code != exitOK {
		t.Fatalf("postrider %s ended with %d: %s", strings.Join(args, " "), code, p.Stderr())
	}
	return p.Stdout()
}

// appendEvent adds an event whose payload has about that many bytes.
func appendEvent(t *testing.T, c *clustertest.Cluster, stream string, size int) int64 {
	t.Helper()
	var sequence int64
	err := c.Pool.QueryRow(t.Context(), `SELECT outbox_append($1, 'thing.done', to_jsonb(repeat('x', $2)))`, stream, size).Scan(&sequence)
	if err != nil {
		t.Fatal(err)
	}
	return sequence
}

// tooLarge is more than the broker takes.
const tooLarge = 2 << 20

// arrivals notes what a subscriber sees, by stream.
type arrivals struct {
	mu   sync.Mutex
	seen map[string][]ledger.Message
}

func (a *arrivals) note(m ledger.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen == nil {
		a.seen = map[string][]ledger.Message{}
	}
	a.seen[m.Stream] = append(a.seen[m.Stream], m)
}

func (a *arrivals) of(stream string) (sequences []int64, generations []int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.seen[stream] {
		sequences, generations = append(sequences, m.Sequence), append(generations, m.Generation)
	}
	return sequences, generations
}

// A message that the broker can never take dies and its stream waits, while the
// others flow. Each of the three ways mends it, and the stream's order is kept.
func TestDeadMessagesAreMended(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 8})
	c.Start(t, 2)
	var seen arrivals
	s := c.Subscribe(t, seen.note)
	ways := []string{"requeue", "skip", "discard"}
	events := map[string][]int64{}
	for _, way := range ways {
		for _, size := range []int{1, tooLarge, 1, 1} {
			events[way] = append(events[way], appendEvent(t, c, way, size))
		}
	}
	c.WaitCount(t, 3, `SELECT count(*) FROM outbox_messages WHERE state = 'dead'`)
	c.WaitCount(t, 6, `SELECT count(*) FROM outbox_messages WHERE state = 'blocked'`)
	appendEvent(t, c, "neighbour", 1)
	s.WaitReceived(t, 4-s.Received())

	var detail detailBody
	if err := json.Unmarshal([]byte(operate(t, c, "messages", "show", fmt.Sprint(events["requeue"][1]), "--json")), &detail); err != nil {
		t.Fatal(err)
	}
	if detail.State != "dead" || !strings.Contains(*detail.LastError, "max_payload") || detail.Behind != 2 || len(detail.Next) != 2 {
		t.Errorf("before: %+v", detail)
	}
	var causes ops.CausesBody
	if err := json.Unmarshal([]byte(operate(t, c, "dead", "causes", "--type", "thing.done", "--json")), &causes); err != nil {
		t.Fatal(err)
	}
	if len(causes.Causes) != 1 || causes.Causes[0].Count != 3 || *causes.Causes[0].Class != "permanent" || !causes.Complete {
		t.Fatalf("the causes are %+v", causes)
	}
	family := *causes.Causes[0].Family
	if table := operate(t, c, "dead", "causes"); !strings.Contains(table, "permanent") || !strings.Contains(table, family) {
		t.Errorf("the causes as a table: %s", table)
	}
	if got := operate(t, c, "dead", "requeue", "--error-family", family, "--dry-run"); got != "would requeue 3 messages\n" {
		t.Errorf("of the cause it %s", got)
	}
	// Somebody repairs the event whose message is requeued.
	if _, err := c.Pool.Exec(t.Context(), `UPDATE events SET payload = '"small"' WHERE sequence = $1`, events["requeue"][1]); err != nil {
		t.Fatal(err)
	}
	for way, did := range map[string]string{"requeue": "requeued", "skip": "skipped", "discard": "discarded"} {
		got := operate(t, c, "dead", way, fmt.Sprint(events[way][1]), "--reason", "test of "+way, "--actor", "ann")
		if want := did + " 1 message\n"; got != want {
			t.Errorf("it said %q, want %q", got, want)
		}
	}
	c.WaitDrained(t)
	for _, way := range ways { // what comes later flows again
		events[way] = append(events[way], appendEvent(t, c, way, 1))
	}
	s.WaitReceived(t, 1+5+4+4-s.Received())
	for way, want := range map[string]string{"requeue": "[0 1 0 0 0]", "skip": "[0 0 0 0]", "discard": "[0 0 0 0]"} {
		wanted := slices.Clone(events[way])
		if way != "requeue" {
			wanted = slices.Delete(wanted, 1, 2)
		}
		if sequences, generations := seen.of(way); !slices.Equal(sequences, wanted) || fmt.Sprint(generations) != want {
			t.Errorf("stream %s received %v of generations %v, want %v of %s", way, sequences, generations, wanted, want)
		}
		state := map[string]string{"requeue": "published", "skip": "skipped", "discard": "discarded"}[way]
		if n := c.Count(t, `SELECT count(*) FROM outbox_messages WHERE global_sequence = $1 AND state = $2`, events[way][1], state); n != 1 {
			t.Errorf("the message is not %s", state)
		}
	}
	if n := c.Count(t, `SELECT count(*) FROM outbox_audit WHERE actor = 'ann' AND reason = 'test of ' || split_part(action, '.', 2)
		AND details::text LIKE '%max_payload%'`); n != 3 {
		t.Errorf("%d of 3 changes are in the audit", n)
	}
}

// Operators requeue everything again and again while workers kill it again and
// producers write: nothing overtakes, nothing is lost, nothing comes twice.
func TestRequeuesUnderLoadKeepTheOrder(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 4})
	c.Start(t, 2)
	var seen arrivals
	c.Subscribe(t, seen.note)
	const streams, length = 12, 15
	written := map[string][]int64{}
	for i := range length {
		for n := range streams {
			stream, size := fmt.Sprintf("s-%d", n), 1
			if i == n%4+1 || i == n%4+6 {
				size = tooLarge
			}
			written[stream] = append(written[stream], appendEvent(t, c, stream, size))
		}
		operate(t, c, "dead", "requeue", "--all", "--yes", "--reason", "try again")
	}
	c.WaitCount(t, 1, `SELECT count(*) FROM outbox WHERE generation > 1`)
	if _, err := c.Pool.Exec(t.Context(), `UPDATE events SET payload = '"small"' WHERE octet_length(payload) > 1000`); err != nil {
		t.Fatal(err)
	}
	for c.Count(t, `SELECT count(*) FROM outbox`) > 0 {
		operate(t, c, "dead", "requeue", "--all", "--yes")
	}
	for stream, want := range written {
		clustertest.Until(t, stream+" is complete", func(context.Context) (bool, error) {
			got, _ := seen.of(stream)
			return len(got) >= len(want), nil
		}, nil)
		if got, _ := seen.of(stream); !slices.Equal(got, want) {
			t.Errorf("stream %s received %v, want %v", stream, got, want)
		}
	}
	if n := c.Count(t, `SELECT count(*) FROM outbox_messages WHERE state <> 'published'`); n != 0 {
		t.Errorf("%d messages are not published", n)
	}
}

// onDead is a command on a database that need not be there.
func onDead(args ...string) []string {
	return append([]string{"dead"}, append(args, "--database-url=postgres://u:"+planted+"@"+nobody+"/x")...)
}

func TestWrongInputOfOperatorsIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]complaint{
		"nothing selected":       {onDead("discard", "--reason=r"), exitRefused, []string{"nothing is selected", "--all", "--stream"}},
		"empty stream":           {onDead("requeue", "--stream=", "--topic=t"), exitRefused, []string{"--stream", "empty"}},
		"partition":              {onDead("requeue", "--partition=40000"), exitRefused, []string{"--partition", "40000"}},
		"event id":               {onDead("list", "--id=17"), exitRefused, []string{"--id", "17"}},
		"since":                  {onDead("list", "--since=yesterday"), exitRefused, []string{"--since", "yesterday"}},
		"until":                  {onDead("list", "--until=-3s"), exitRefused, []string{"--until", "-3s"}},
		"limit":                  {onDead("list", "--limit=0"), exitRefused, []string{"--limit"}},
		"sequence":               {onDead("skip", "--reason=r", "x17"), exitRefused, []string{"x17"}},
		"state of requeue":       {onDead("requeue", "--all", "--state=blocked"), exitRefused, []string{"--state", "failed"}},
		"state of a list":        {[]string{"messages", "list", "--state=lost"}, exitRefused, []string{"--state", "lost", "discarded"}},
		"message":                {[]string{"messages", "show", "x"}, exitRefused, []string{"UUID", "x"}},
		"no partitions":          {[]string{"partitions", "pause"}, exitRefused, []string{"--all"}},
		"partitions and all":     {[]string{"partitions", "resume", "1", "--all"}, exitRefused, []string{"--all"}},
		"partition out of range": {[]string{"partitions", "pause", "32767"}, exitRefused, []string{"PARTITION", "32767"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.check(t)
		})
	}
}

// deadDatabase holds three dead messages of the streams a, a and b, and two
// behind the first.
func deadDatabase(t *testing.T) (address string, on func(args ...string) []string) {
	t.Helper()
	address = pgtest.Migrated(t, 8)
	pool := pgtest.Pool(t, address)
	for _, sql := range []string{
		`SELECT outbox_append(s, 'thing.done', '{}') FROM unnest('{a,a,b,a}'::text[]) AS s`,
		`UPDATE outbox SET parked = true, dead_at = clock_timestamp(), attempts = 8, last_error = 'it is too large' WHERE global_sequence <= 3`,
		`UPDATE outbox SET parked = true, blocked = true WHERE global_sequence = 4`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return address, func(args ...string) []string { return append(args, "--database-url="+address) }
}

func TestDeadCommandsAskAndTell(t *testing.T) {
	t.Parallel()
	address, on := deadDatabase(t)
	pool := pgtest.Pool(t, address)
	for name, c := range map[string]complaint{
		"unknown sequence":  {on("dead", "requeue", "77"), exitRefused, []string{"SEQUENCE", "77 does not exist"}},
		"not dead":          {on("dead", "skip", "4", "1", "--reason=r", "--yes"), exitRefused, []string{"SEQUENCE", "4 is blocked, not dead"}},
		"no reason":         {on("dead", "discard", "1"), exitRefused, []string{"--reason", "required"}},
		"all at once":       {on("dead", "discard", "--all"), exitRefused, []string{"3 messages", "--yes", "--reason"}},
		"a limit of none":   {on("dead", "requeue", "--all", "--limit=0"), exitRefused, []string{"--limit must be at least 1"}},
		"an empty tenant":   {on("dead", "requeue", "--tenant="), exitRefused, []string{"--tenant"}},
		"a few of them":     {on("dead", "requeue", "--all", "--limit=2"), exitRefused, []string{"2 messages", "--yes"}},
		"more than one":     {on("dead", "requeue", "--all"), exitRefused, []string{"3 messages", "--yes"}},
		"two ways":          {on("dead", "requeue", "1", "--all"), exitRefused, []string{"exclude"}},
		"unknown partition": {on("dead", "requeue", "--partition=8"), exitRefused, []string{"partition", "8"}},
		"unknown message":   {on("messages", "show", "77"), exitRefused, []string{"77"}},
		"unknown event":     {on("messages", "show", "ffffffff-ffff-4fff-8fff-ffffffffffff"), exitRefused, []string{"ffffffff"}},
		"no such partition": {on("partitions", "pause", "8"), exitRefused, []string{"partition", "8"}},
	} {
		t.Log(name)
		c.check(t)
	}
	var changed int
	err := pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM outbox_audit)
		+ (SELECT count(*) FROM outbox WHERE generation > 0)`).Scan(&changed)
	if err != nil || changed != 0 {
		t.Fatalf("refused commands changed %d rows: %v", changed, err)
	}
	for _, c := range []struct {
		args   []string
		stdout string
	}{
		{on("dead", "requeue", "--all", "--dry-run"), "would requeue 3 messages\n"},
		{on("dead", "requeue", "--stream=none"), "requeued 0 messages\n"},
		{on("dead", "requeue", "2"), "requeued 1 message; 1 wait behind an earlier dead message\n"},
		{
			on("dead", "discard", "--error-contains=too large", "--stream=a", "--reason=r", "--json"),
			`{"action":"discard","state":"dead","count":1,"complete":true,"waiting":0,"gone":0,"dry_run":false}` + "\n",
		},
		{on("dead", "skip", "--all", "--reason=r"), "skipped 1 message\n"},
	} {
		if code, stdout, stderr := call(t, c.args...); code != exitOK || stdout != c.stdout || stderr != "" {
			t.Errorf("%v: status %d, %q, %q, want %q", c.args, code, stdout, stderr, c.stdout)
		}
	}
	var actor string
	if err := pool.QueryRow(t.Context(), `SELECT min(actor) FROM outbox_audit HAVING count(*) = 3`).Scan(&actor); err != nil || actor == "" {
		t.Errorf("actor %q: %v", actor, err)
	}
}

// A configuration file is for servers: its stream is the one of NATS, and it may not
// say --all or --yes.
func TestSelectionsComeFromTheCommandLineAlone(t *testing.T) {
	address, on := deadDatabase(t)
	t.Setenv("POSTRIDER_ALL", "true")
	t.Setenv("POSTRIDER_STREAM", "a")
	t.Setenv("POSTRIDER_YES", "true")
	for _, setting := range []string{"yes: true", "reason: from the file"} {
		name, _, _ := strings.Cut(setting, ":")
		with := writeFile(t, setting+"\ndatabase-url: "+address+"\n")
		complaint{[]string{"--config=" + with, "dead", "requeue", "1"}, exitRefused, []string{"--" + name, "command line alone"}}.check(t)
	}
	file := writeFile(t, "stream: b\nall: true\ndatabase-url: "+address+"\n")
	complaint{[]string{"--config=" + file, "dead", "requeue"}, exitRefused, []string{"nothing is selected"}}.check(t)
	complaint{on("dead", "requeue"), exitRefused, []string{"nothing is selected"}}.check(t)
	complaint{[]string{"--config=" + file, "dead", "skip", "1", "2", "--reason=r"}, exitRefused, []string{"--yes"}}.check(t)
	complaint{[]string{"--config=" + file, "dead", "skip", "1"}, exitRefused, []string{"--reason"}}.check(t)
	code, stdout, stderr := call(t, "--config="+file, "dead", "list", "--json")
	if code != exitOK || strings.Count(stdout, `"state":"dead"`) != 3 {
		t.Errorf("status %d: %s%s", code, stdout, stderr)
	}
}

// Large selections show how far they are.
func TestLargeSelectionsShowProgress(t *testing.T) {
	t.Parallel()
	address := pgtest.Migrated(t, 4)
	pool := pgtest.Pool(t, address)
	for _, sql := range []string{
		`SELECT outbox_append_batch(array_agg('s' || n), array_agg('t'::text), array_agg('x'::bytea)) FROM generate_series(1, 1100) AS n`,
		`UPDATE outbox SET parked = true, dead_at = clock_timestamp()`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr := call(t, "dead", "discard", "--all", "--yes", "--reason=r", "--database-url="+address)
	if code != exitOK || stdout != "discarded 1,100 messages\n" || stderr != "500 of 1,100 messages\n1,000 of 1,100 messages\n" {
		t.Errorf("status %d: %q, %q", code, stdout, stderr)
	}
}
