package faults_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/slow"
	"github.com/postrider/postrider/outbox"
)

// highest is the highest sequence that was received.
type highest struct {
	mu       sync.Mutex
	sequence int64
}

func (h *highest) note(m ledger.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sequence = max(h.sequence, m.Sequence)
}

func (h *highest) get() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sequence
}

// ending is a way in which a transaction that was left open ends.
type ending struct {
	prepare string // sent to leave it open without a session; "" leaves it idle
	end     string
	commits bool
}

// A producer that leaves its transaction open holds back everything behind its first sequence, and only with ordering
// partition; the watermark names it. When it ends all flows again, in order.
func TestOpenTransactionHoldsOrderBack(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	for name, e := range map[string]ending{ //nolint:paralleltest // clusters run one at a time
		"idle, then commit":       {end: "COMMIT", commits: true},
		"idle, then rollback":     {end: "ROLLBACK"},
		"prepared, then commit":   {prepare: "PREPARE TRANSACTION '%s'", end: "COMMIT PREPARED '%s'", commits: true},
		"prepared, then rollback": {prepare: "PREPARE TRANSACTION '%s'", end: "ROLLBACK PREPARED '%s'"},
	} {
		t.Run(name, func(t *testing.T) {
			if !e.commits {
				slow.Test(t)
			}
			seen := &highest{}
			s := begin(t, setting{Config: clustertest.Config{Flags: shortTTL()}, Observe: seen.note})
			if e.prepare != "" && s.Count(t, `SELECT current_setting('max_prepared_transactions')::int`) == 0 {
				t.Skip("the server allows no prepared transactions")
			}
			open := s.open(t)
			if e.prepare != "" {
				open.exec(t, e.prepare)
			}
			// There are events behind the open ones, and the watermark waits for their transaction.
			s.WaitCount(t, 1, `SELECT count(*) FROM outbox_watermark
				WHERE safe_sequence < $1 AND (SELECT max(sequence) FROM events) > $1 AND candidate IS NOT NULL AND ($2 OR $3 = ANY (holders))`,
				open.first, e.prepare != "", open.virtual)
			s.load.WaitCommitted(t, 1500)
			last(t.Context(), time.Second) // time enough to overtake
			if at := seen.get(); at >= open.first {
				t.Errorf("sequence %d was delivered while %d was open", at, open.first)
			}
			if n := s.Count(t, `SELECT count(*) FROM outbox`); n < 1000 {
				t.Errorf("the backlog is %d, want 1000 or more", n)
			}
			open.exec(t, e.end)
			open.settle(s.Ledger, e.commits)
			s.subscriber.WaitReceived(t, 1500)
			s.wantUntouched(t)
			s.Verify(t)
			s.report(t, 1)
		})
	}
}

// With ordering stream nobody waits for an open transaction but its own streams.
func TestOpenTransactionWithOrderingStream(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	seen := &highest{}
	s := begin(t, setting{Config: clustertest.Config{Flags: shortTTL("--ordering=stream")}, Observe: seen.note})
	open := s.open(t)
	s.subscriber.WaitReceived(t, 1500)
	if at := seen.get(); at <= open.first {
		t.Errorf("the highest sequence delivered is %d, and %d is still open", at, open.first)
	}
	open.exec(t, "COMMIT")
	open.settle(s.Ledger, true)
	s.Verify(t)
}

// open is a transaction with events, left open.
type open struct {
	conn    *pgx.Conn
	entries []ledger.Entry
	first   int64  // sequence
	virtual string // its virtual id
	name    string // when it is prepared
}

// open begins a transaction on a connection of its own and appends events of streams that nobody else writes: their
// writers would queue behind it.
func (s *stage) open(t *testing.T) *open {
	t.Helper()
	o := &open{name: "fault-" + uuid.NewString()}
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	var err error
	if o.conn, err = pgx.Connect(ctx, s.DatabaseURL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // a prepared transaction would outlive the test and lock the database
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), clustertest.Patience)
		defer cancel()
		_, _ = o.conn.Exec(ctx, "ROLLBACK PREPARED '"+o.name+"'") // usually it is not there
		_ = o.conn.Close(ctx)
	})
	tx, err := o.conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	producer, err := outbox.New(outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	events := make([]outbox.Event, 20)
	for i := range events {
		events[i] = outbox.Event{ID: uuid.New(), StreamID: fmt.Sprintf("open-%d", i), Type: "open", Payload: []byte(`{}`)}
	}
	appended, err := producer.AppendTx(ctx, tx, events...)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range appended {
		o.entries = append(o.entries, ledger.Entry{
			EventID: a.EventID, Stream: events[i].StreamID, Version: a.StreamVersion, Sequence: a.Sequence, Partition: a.Partition,
		})
	}
	o.first = appended[0].Sequence
	s.Ledger.Begin(o.entries)
	err = tx.QueryRow(ctx, `SELECT virtualtransaction FROM pg_locks WHERE pid = pg_backend_pid() LIMIT 1`).Scan(&o.virtual)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// exec runs a statement about the transaction.
func (o *open) exec(t *testing.T, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	if slices.Contains([]byte(statement), '%') {
		statement = fmt.Sprintf(statement, o.name)
	}
	if _, err := o.conn.Exec(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// settle tells the ledger.
func (o *open) settle(l *ledger.Ledger, committed bool) {
	if committed {
		l.Committed(o.entries, time.Now())
	} else {
		l.Failed(o.entries)
	}
}
