package ui_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui"
)

// outbox is a database without workers and a monitor on it.
type outbox struct {
	address string
	pool    *pgxpool.Pool
	source  ui.Source
	log     *logged
	last    int64 // stream sequence
}

// logged keeps what the monitor logs.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newOutbox(t *testing.T, partitions int) *outbox {
	t.Helper()
	return outboxAt(t, pgtest.Migrated(t, partitions))
}

func outboxAt(t *testing.T, address string) *outbox {
	t.Helper()
	o := &outbox{address: address, log: &logged{}}
	o.pool = pgtest.Pool(t, o.address)
	stores := newStores(t, o.pool)
	var err error
	if o.source, err = ui.NewSource(ui.SourceConfig{
		Workers: stores.workers, Leases: stores.leases, Deliveries: stores.deliveries, Strategy: partition.Modulo, HeartbeatTTL: ttl,
	}); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *outbox) operator(t *testing.T, pool *pgxpool.Pool) *ops.Operator {
	t.Helper()
	op, err := ops.New(t.Context(), pool, "public", pgstore.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	return op
}

// serve runs a monitor with an operator, everything that is logged, and options.
func (o *outbox) serve(t *testing.T, options ui.Options) *httptest.Server {
	t.Helper()
	options.Source = o.source
	if options.Operator == nil {
		options.Operator = o.operator(t, o.pool)
	}
	options.Logger = slog.New(slog.NewTextHandler(o.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return serve(t, options)
}

func (o *outbox) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := o.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func one[T any](t *testing.T, o *outbox, sql string, args ...any) T {
	t.Helper()
	var value T
	if err := o.pool.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// append adds an event and returns its sequence.
func (o *outbox) append(t *testing.T, stream string, more ...string) int64 {
	t.Helper()
	return one[int64](t, o, `SELECT outbox_append($1, 'thing.done', '{"secret": "pl4nted"}'`+strings.Join(append([]string{""}, more...), ", ")+`)`, stream)
}

// park changes rows as a worker would that could not publish them.
func (o *outbox) park(t *testing.T, set string, sequences ...int64) {
	t.Helper()
	o.exec(t, `UPDATE outbox SET parked = true, `+set+` WHERE global_sequence = ANY ($1)`, sequences)
}

func (o *outbox) kill(t *testing.T, reason string, sequences ...int64) {
	t.Helper()
	o.park(t, `dead_at = clock_timestamp(), attempts = 3, last_error = '`+reason+`'`, sequences...)
}

func (o *outbox) fail(t *testing.T, sequences ...int64) {
	t.Helper()
	o.park(t, `attempts = 2, available_at = clock_timestamp() + interval '1 hour', last_error = 'hiccup'`, sequences...)
}

// publish settles one message.
func (o *outbox) publish(t *testing.T, sequence int64) {
	t.Helper()
	o.last++
	o.exec(t, `WITH gone AS (DELETE FROM outbox WHERE global_sequence = $1 RETURNING *)
		INSERT INTO outbox_deliveries (partition_key, lease_epoch, first_sequence, last_sequence, first_stream_sequence,
			last_stream_sequence, message_count) SELECT partition_key, 1, $1, $1, $2, $2, 1 FROM gone`, sequence, o.last)
}

// join makes a worker a member and gives it partitions.
func (o *outbox) join(t *testing.T, id uuid.UUID, host string, partitions ...partition.ID) {
	t.Helper()
	stores := newStores(t, o.pool)
	if err := stores.workers.Beat(t.Context(), heartbeat.Worker{ID: id, Hostname: host, PID: 7, Version: "1", State: heartbeat.Active}, ttl); err != nil {
		t.Fatal(err)
	}
	if len(partitions) == 0 {
		return
	}
	if held, err := stores.leases.Acquire(t.Context(), id, ttl, partitions); err != nil || len(held) != len(partitions) {
		t.Fatalf("acquired %d leases: %v", len(held), err)
	}
}

// state is what the view says of a message.
func (o *outbox) state(t *testing.T, sequence int64) string {
	t.Helper()
	return one[string](t, o, `SELECT state FROM outbox_messages WHERE global_sequence = $1`, sequence)
}

// entry is a row of the audit.
type entry struct{ Actor, Action, Reason string }

func (o *outbox) audits(t *testing.T) []entry {
	t.Helper()
	var list []entry
	rows, err := o.pool.Query(t.Context(), `SELECT actor, action, coalesce(reason, '') FROM outbox_audit ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var e entry
		if err := rows.Scan(&e.Actor, &e.Action, &e.Reason); err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func (o *outbox) wantAudits(t *testing.T, want ...entry) {
	t.Helper()
	if got := o.audits(t); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the audit says %v, want %v", got, want)
	}
}

func withBody(body string) func(*http.Request) {
	return func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
}

// problem is the body of a refusal.
type problem struct {
	Error struct {
		Code, Message, Field string
		Sequences            []int64
		Count                int64
	}
}

// wantProblem wants a refusal with that status, code and field.
func wantProblem(t *testing.T, got answer, status int, code, field string) problem {
	t.Helper()
	wantStatus(t, got, status)
	p := decode[problem](t, got)
	if p.Error.Code != code || p.Error.Field != field || p.Error.Message == "" {
		t.Errorf("%s %s: %+v, want the code %s about %q", got.Request.Method, got.Request.URL, p.Error, code, field)
	}
	return p
}
