package ui_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/ui"
)

// live is a cluster of three workers, each a process, a broker with a
// subscriber, and the monitor in a browser.
type live struct {
	*outboxBundle
	cluster *clustertest.Cluster
	workers []*clustertest.Worker
	server  *httptest.Server
	tab     func() context.Context // of the browser

	mu      sync.Mutex
	arrived map[int64]int32 // generations by sequence
}

const livePartitions = 12

func newLive(t *testing.T, tab func() context.Context) *live {
	t.Helper()
	c := clustertest.New(t, clustertest.Config{Partitions: livePartitions, Flags: []string{"--lease-ttl=5s"}})
	l := &live{cluster: c, outboxBundle: onOutbox(t, c.Pool), tab: tab, arrived: map[int64]int32{}}
	l.workers = c.Start(t, 3)
	c.WaitShared(t, l.workers...)
	c.Subscribe(t, func(m ledger.Message) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.arrived[m.Sequence] = m.Generation
	})
	l.server = l.serve(t, ui.Options{Environment: "test"})
	return l
}

// waitArrived waits for messages of that generation.
func (l *live) waitArrived(t *testing.T, generation int32, sequences ...int64) {
	t.Helper()
	clustertest.Until(t, fmt.Sprintf("%v of generation %d arrived", sequences, generation), func(context.Context) (bool, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return !slices.ContainsFunc(sequences, func(s int64) bool {
			got, there := l.arrived[s]
			return !there || got != generation
		}), nil
	}, nil)
}

// poison appends messages that the broker can never take, and waits for them to
// die.
func (l *live) poison(t *testing.T, stream string, n int) (sequences []int64) {
	t.Helper()
	for range n {
		sequences = append(sequences, l.one(t, `SELECT outbox_append($1, 'thing.done', to_jsonb(repeat('x', $2)))`, stream, 2<<20))
		stream += "'"
	}
	l.cluster.WaitCount(t, n, `SELECT count(*) FROM outbox WHERE dead_at IS NOT NULL AND global_sequence = ANY ($1)`, sequences)
	return sequences
}

// mend makes events small enough.
func (l *live) mend(t *testing.T, sequences ...int64) {
	t.Helper()
	l.exec(t, `UPDATE events SET payload = '"small"' WHERE sequence = ANY ($1)`, sequences)
}

func (l *live) waitState(t *testing.T, state string, sequences ...int64) {
	t.Helper()
	l.cluster.WaitCount(t, len(sequences), `SELECT count(*) FROM outbox_messages WHERE global_sequence = ANY ($1) AND state = $2`, sequences, state)
}

// One cluster for all of it: what one part leaves behind does not disturb the
// next.
func TestBrowserDrivesALiveCluster(t *testing.T) { //nolint:paralleltest // it measures how long something takes
	ctx := browser(t)
	faults := complaints(t, ctx)
	l := newLive(t, func() context.Context { return ctx })
	for _, part := range []struct {
		name string
		run  func(*live, *testing.T)
	}{
		{"requeues a dead letter, which arrives", (*live).requeue},
		{"skips and discards", (*live).settle},
		{"pauses and resumes a partition", (*live).pause},
		{"drains a worker", (*live).drain},
		{"shows a change of owner within two seconds", (*live).move},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.run(l, t) }) {
			break
		}
	}
	for _, fault := range faults() {
		t.Errorf("the browser complains: %s", fault)
	}
}

func (l *live) requeue(t *testing.T) {
	t.Helper()
	ctx := l.tab()
	dead := l.poison(t, "order-1", 1)[0]
	behind := l.append(t, "order-1")
	l.waitState(t, "blocked", behind)
	l.mend(t, dead)
	open(t, ctx, 1440, l.server.URL+"/messages?state=dead", fmt.Sprintf("#m-%d", dead))
	must(t, do(ctx, chromedp.Click(fmt.Sprintf("#m-%d .pick input", dead)), chromedp.Click("button[name=selected][value=requeue]")))
	send(t, ctx, "mended", "#flash")
	if said := text(t, ctx, "#flash"); said != "1 message was requeued." {
		t.Errorf("it says %q", said)
	}
	l.waitArrived(t, 1, dead)
	l.waitArrived(t, 0, behind)
	l.waitState(t, "published", dead) // the mark may come later than the message
	open(t, ctx, 1440, fmt.Sprintf("%s/messages/%d", l.server.URL, dead), "#explain")
	if said := text(t, ctx, "main"); !strings.Contains(said, "The stream has acknowledged it.") || !strings.Contains(said, "dead.requeue") {
		t.Errorf("its page says %.500q", said)
	}
}

func (l *live) settle(t *testing.T) {
	t.Helper()
	ctx := l.tab()
	dead := l.poison(t, "invoice", 7)
	// One, from its own page.
	for verb, sequence := range map[string]int64{"skip": dead[0], "discard": dead[1]} {
		open(t, ctx, 1440, fmt.Sprintf("%s/messages/%d", l.server.URL, sequence), "#act")
		must(t, do(ctx, chromedp.Click("#act button[value="+verb+"]")))
		send(t, ctx, verb+" one", "#flash")
	}
	l.waitState(t, "skipped", dead[0])
	l.waitState(t, "discarded", dead[1])
	// Some that are selected.
	open(t, ctx, 1440, l.server.URL+"/messages?state=dead", fmt.Sprintf("#m-%d", dead[3]))
	must(t, do(ctx, chromedp.Click(fmt.Sprintf("#m-%d .pick input", dead[2])), chromedp.Click(fmt.Sprintf("#m-%d .pick input", dead[3])),
		chromedp.Click("button[name=selected][value=discard]")))
	send(t, ctx, "discard two", "#flash")
	if said := text(t, ctx, "#flash"); said != "2 messages were discarded." {
		t.Errorf("it says %q", said)
	}
	l.waitState(t, "discarded", dead[2:4]...)
	// All that match.
	open(t, ctx, 1440, l.server.URL+"/messages?state=dead&error_contains=max_payload", fmt.Sprintf("#m-%d", dead[4]))
	must(t, do(ctx, chromedp.Click("button[name=all][value=skip]"), chromedp.WaitVisible("#confirm-heading")))
	if said := text(t, ctx, "#confirm-heading"); said != "Skip 3 messages?" {
		t.Errorf("it asks %q", said)
	}
	send(t, ctx, "skip all", "#flash")
	l.waitState(t, "skipped", dead[4:]...)
}

func (l *live) pause(t *testing.T) {
	t.Helper()
	ctx := l.tab()
	sequence := l.append(t, "customer-7")
	l.waitArrived(t, 0, sequence)
	n := l.one(t, `SELECT partition_key FROM outbox_messages WHERE global_sequence = $1`, sequence)
	open(t, ctx, 1440, fmt.Sprintf("%s/partitions/%d", l.server.URL, n), "#pause")
	must(t, do(ctx, chromedp.Click("#pause button"), chromedp.WaitVisible("#confirm-heading")))
	send(t, ctx, "a deploy", "#flash")
	waiting := l.append(t, "customer-7")
	must(t, do(ctx, become(`document.getElementById('why').textContent.includes('paused since')`)))
	if l.one(t, `SELECT count(*) FROM outbox WHERE global_sequence = $1`, waiting) != 1 {
		t.Error("a paused partition delivers")
	}
	must(t, do(ctx, chromedp.SendKeys("#reason", "done with it")))
	l.exec(t, `UPDATE outbox_partitions SET paused_at = NULL WHERE partition_key = $1`, n) // a colleague does the same
	must(t, do(ctx, become(`document.getElementById('link').textContent === 'waiting: a form is being filled in'`)))
	if does := evaluate[string](t, ctx, `document.querySelector('#pause [name=action]').value`); does != "resume" {
		t.Errorf("while a reason is written the button comes to %s", does)
	}
	l.exec(t, `UPDATE outbox_partitions SET paused_at = clock_timestamp() WHERE partition_key = $1`, n)
	must(t, do(ctx, chromedp.Click("#pause button"), chromedp.WaitVisible(`#pause button.danger`)))
	l.waitArrived(t, 0, waiting)
	open(t, ctx, 1440, l.server.URL+"/audit", "main table")
	if said := text(t, ctx, "main table"); !strings.Contains(said, "partition.pause") || !strings.Contains(said, "a deploy") {
		t.Errorf("the audit says %.400q", said)
	}
}

func (l *live) drain(t *testing.T) {
	t.Helper()
	ctx := l.tab()
	drained := l.workers[0]
	l.workers = l.workers[1:]
	open(t, ctx, 1440, l.server.URL+"/", fmt.Sprintf("[id='w-%s']", drained.ID))
	must(t, do(ctx, chromedp.Click(fmt.Sprintf("[id='w-%s'] a", drained.ID)), chromedp.WaitVisible("#confirm-heading")))
	send(t, ctx, "old kernel", "#flash")
	l.cluster.WaitHeld(t, l.workers...)
	must(t, do(ctx, become(fmt.Sprintf(
		`(() => { const row = document.getElementById('w-%s'); return row.classList.contains('is-draining') && row.cells[8].textContent === '0'; })()`, drained.ID))))
	if moved := text(t, ctx, "#ownership"); !strings.Contains(moved, drained.ID.String()[30:]) {
		t.Errorf("the changes of ownership do not tell of it: %.300q", moved)
	}
}

func (l *live) move(t *testing.T) {
	t.Helper()
	ctx := l.tab()
	leaving, staying := l.workers[0], l.workers[1]
	owners, err := l.cluster.Owners(t.Context())
	must(t, err)
	moves := -1
	for p, owner := range owners {
		if owner == leaving.ID {
			moves = p
		}
	}
	open(t, ctx, 1440, l.server.URL+"/", fmt.Sprintf("#p-%d", moves))
	must(t, do(ctx, become(`document.getElementById('link').textContent === 'live'`)))
	leaving.Signal(t, syscall.SIGTERM)
	var changed time.Time
	clustertest.Until(t, "the partition has another owner", func(ctx context.Context) (bool, error) {
		var owner *uuid.UUID
		err := l.pool.QueryRow(ctx, `SELECT lease_owner FROM outbox_partitions WHERE partition_key = $1`, moves).Scan(&owner)
		changed = time.Now()
		return owner != nil && *owner == staying.ID, err
	}, nil)
	must(t, do(ctx, become(fmt.Sprintf(
		`document.getElementById('p-%d').querySelector('code')?.textContent.includes('%s')`, moves, staying.ID.String()[30:]))))
	took := time.Since(changed)
	t.Logf("the page showed the new owner after %v", took.Round(time.Millisecond))
	if took > 2*time.Second {
		t.Errorf("the page showed the new owner %v after the database had it, want at most 2 s", took)
	}
}
