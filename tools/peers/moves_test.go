package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/tools/bench/measure"
)

// migrating is the page whose commands the tests of moves run, in its order.
const migrating = "../../docs/migrating.md"

var (
	pageBlock = regexp.MustCompile("(?ms)^```(?:sh|sql)\n(.*?)^```")
	pageWord  = regexp.MustCompile(`'([^']*)'|"([^"]*)"|(\S+)`)
)

// some is how many messages must come before the next step, and wait at the switch.
const some = 40

// origin is what a move begins from.
type origin struct {
	section string
	prepare []string // what the old relay needs besides its table
	insert  insertion
	// start begins the old relay, which tells its messages by told; what it returns ends it as the page says.
	start func(t *testing.T, m *moving) func()
	// leave is the page's steps up to the start of Postrider. It ends the old relay, or returns what does.
	leave func(t *testing.T, m *moving, stop func()) func()
	// drop begins the line that takes all back.
	drop string
	// topic and streams, a prefix, are those of rows, for writers that change over; "" where none does.
	topic, streams string
	// unordered says that the old relay keeps no order.
	unordered bool
}

// moving is a move by the page, under writers.
type moving struct {
	*clustertest.Cluster
	lines    []string // of the page's section that are left
	position string   // what the page's SQL calls :'switch'

	over  atomic.Bool   // writers call the function for every other event
	ended chan struct{} // closed when all is published

	mu   sync.Mutex
	list []arrival
}

// arrival is a message that the old relay, or Postrider, published.
type arrival struct {
	account string
	version int64
	ours    int64 // Postrider's sequence; 0 for the old relay
}

// move carries a move out and takes it back, while writers go on; each event must come once, and in the order of its account.
func move(t *testing.T, c *clustertest.Cluster, o origin) {
	t.Helper()
	m := &moving{Cluster: c, lines: section(t, o.section), ended: make(chan struct{})}
	if _, err := m.Pool.Exec(t.Context(), writersOwn()+`; INSERT INTO accounts VALUES ('spanning', 0)`); err != nil {
		t.Fatal(err)
	}
	for _, sql := range o.prepare {
		if _, err := m.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	load := startWriters(t, m.Cluster, relay{insert: func() (insertion, error) { return m.changing(o) }}, mostAccounts)
	stop := o.start(t, m)
	m.more(t, "the old relay publishes", false)
	if stop = o.leave(t, m, stop); stop == nil {
		stop = func() {}
	}
	subscriber := m.Subscribe(t, func(message ledger.Message) { m.add(arrival{ours: message.Sequence}) })
	m.Run(t)
	m.more(t, "Postrider publishes", true)
	m.over.Store(true)
	m.more(t, "Postrider publishes what writers appended", true)

	m.over.Store(false)
	if _, err := m.Pool.Exec(t.Context(), `BEGIN; LOCK TABLE accounts; COMMIT`); err != nil { // all who appended have committed
		t.Fatal(err)
	}
	stop()
	m.postrider(t, o.drop)
	m.WaitDrained(t)
	subscriber.WaitEnd(t)
	stop = o.start(t, m)
	m.more(t, "the old relay publishes again", false)
	load.end()
	all := m.Count(t, `SELECT sum(version) FROM accounts`)
	m.until(t, "all is published", func() bool { return m.count(nil) >= all })
	close(m.ended)
	stop()
	if len(m.lines) > 0 {
		t.Errorf("%s has more lines: %q", migrating, m.lines)
	}
	m.judge(t, o)
}

// section are the lines of a section's blocks.
func section(t *testing.T, name string) (lines []string) {
	t.Helper()
	page, err := os.ReadFile(migrating)
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "\n## "+name+"\n")
	if !found {
		t.Fatalf("%s has no section %q", migrating, name)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	for _, block := range pageBlock.FindAllStringSubmatch(text, -1) {
		lines = append(lines, strings.Split(strings.TrimSpace(block[1]), "\n")...)
	}
	return lines
}

// next is the page's next line, which begins like that.
func (m *moving) next(t *testing.T, begins string) string {
	t.Helper()
	if len(m.lines) == 0 || !strings.HasPrefix(m.lines[0], begins) {
		t.Fatalf("%s goes on with %q, want %s", migrating, m.lines, begins)
	}
	line := m.lines[0]
	m.lines = m.lines[1:]
	return line
}

// postrider runs the page's next line, and returns what it printed.
func (m *moving) postrider(t *testing.T, begins string) string {
	t.Helper()
	var words []string
	for _, word := range pageWord.FindAllStringSubmatch(m.next(t, begins), -1) {
		words = append(words, word[1]+word[2]+word[3])
	}
	for again := 5; ; again-- {
		p := clustertest.Launch(t, begins, m.Environment(), words[1:]...)
		status := p.Exit(t)
		switch {
		case status == 0:
			return p.Stdout()
		case again == 0 || !strings.Contains(p.Stderr(), "--lock-timeout"): // writers may keep it waiting, and change nothing by that
			t.Fatalf("%s: status %d: %s", begins, status, p.Stderr())
		}
	}
}

// sql runs the page's next line as psql does.
func (m *moving) sql(t *testing.T, begins string) {
	t.Helper()
	line, remembers := strings.CutSuffix(m.next(t, begins), ` AS switch \gset`)
	var err error
	if remembers {
		err = m.Pool.QueryRow(t.Context(), line).Scan(&m.position)
	} else {
		_, err = m.Pool.Exec(t.Context(), line)
	}
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
}

// ask asks the page's next line until the answer is yes.
func (m *moving) ask(t *testing.T, begins string) {
	t.Helper()
	line := strings.ReplaceAll(m.next(t, begins), ":'switch'", "'"+m.position+"'")
	clustertest.Until(t, line, func(ctx context.Context) (yes bool, err error) {
		return yes, m.Pool.QueryRow(ctx, line).Scan(&yes)
	}, nil)
}

// told is a message of the old relay: of an account, with its version in the body.
func (m *moving) told(account string, body []byte) error {
	var payload struct{ Version int64 }
	err := json.Unmarshal(body, &payload)
	m.add(arrival{account: account, version: payload.Version})
	return err
}

func (m *moving) add(a arrival) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = append(m.list, a)
}

func (m *moving) count(of func(arrival) bool) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.list {
		if of == nil || of(a) {
			n++
		}
	}
	return n
}

// more waits until one of the two published some more.
func (m *moving) more(t *testing.T, what string, ours bool) {
	t.Helper()
	of := func(a arrival) bool { return (a.ours > 0) == ours }
	goal := m.count(of) + some
	m.until(t, what, func() bool { return m.count(of) >= goal })
}

func (m *moving) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	clustertest.Until(t, what, func(context.Context) (bool, error) { return holds(), nil },
		func() string { return fmt.Sprintf("%d messages came", m.count(nil)) })
}

// brings runs a line that imports rows, some of which wait.
func (m *moving) brings(t *testing.T, waiting string) {
	t.Helper()
	m.WaitCount(t, some, waiting)
	if told := m.postrider(t, "postrider adopt --table"); !regexp.MustCompile(`[\d,]{2,} of [\d,]+ that waited`).MatchString(told) {
		t.Errorf("hardly a row waited: %s", told)
	}
}

// judge wants each version of each account once, and in order: of Postrider always, of the old relay where it keeps one.
func (m *moving) judge(t *testing.T, o origin) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.identify(t)
	ours := 0
	came, newest := map[string][]int64{}, map[string]int64{}
	for _, a := range m.list {
		if a.ours > 0 {
			ours++
		}
		if came[a.account] = append(came[a.account], a.version); o.unordered && a.ours == 0 {
			continue
		}
		if a.version <= newest[a.account] {
			t.Errorf("%s: version %d came after %d (Postrider's %d)", a.account, a.version, newest[a.account], a.ours)
		}
		newest[a.account] = a.version
	}
	rows, err := m.Pool.Query(t.Context(), `SELECT id, version FROM accounts`)
	if err != nil {
		t.Fatal(err)
	}
	var account string
	var version int64
	if _, err := pgx.ForEachRow(rows, []any{&account, &version}, func() error {
		slices.Sort(came[account])
		for i := range version {
			if int64(len(came[account])) != version || came[account][i] != i+1 {
				return fmt.Errorf("%s has %d versions, of which came %v", account, version, came[account])
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	t.Logf("%d messages came by the old relay, %d by Postrider", len(m.list)-ours, ours)
}

// identify reads which accounts and versions Postrider's messages are about.
func (m *moving) identify(t *testing.T) {
	t.Helper()
	events := map[int64]arrival{}
	rows, err := m.Pool.Query(t.Context(), `SELECT sequence, stream_id, payload FROM events`)
	if err != nil {
		t.Fatal(err)
	}
	var sequence int64
	var stream string
	var payload []byte
	if _, err := pgx.ForEachRow(rows, []any{&sequence, &stream, &payload}, func() error {
		var body struct {
			Version int64
			New     struct{ Version int64 } // of a captured row
		}
		account := stream[strings.LastIndex(stream, ":")+1:]
		err := json.Unmarshal(payload, &body)
		events[sequence] = arrival{account: account, version: body.Version + body.New.Version, ours: sequence}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for i, a := range m.list {
		if a.ours > 0 {
			m.list[i] = events[a.ours]
		}
	}
}

// changing inserts rows, and has writers that change over call the function for the stream that their rows had.
func (m *moving) changing(o origin) (insertion, error) {
	producer, err := outbox.New(outbox.Config{})
	return func(ctx context.Context, tx pgx.Tx, e *measure.PeerEvent) error {
		if o.topic == "" || !m.over.Load() || e.Version%2 == 0 {
			return o.insert(ctx, tx, e)
		}
		_, err := producer.AppendTx(ctx, tx, outbox.Event{StreamID: o.streams + e.Stream, Topic: o.topic, Type: e.Type, Payload: []byte(e.Payload)})
		return err
	}, err
}
