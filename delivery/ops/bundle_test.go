package ops_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// bundle is an outbox without workers and an operator on it.
type bundle struct {
	pool *pgxpool.Pool
	op   *ops.Operator
	last int64 // stream sequence
}

func setup(t *testing.T, partitions int) *bundle {
	t.Helper()
	b := &bundle{pool: pgtest.Pool(t, pgtest.Migrated(t, partitions))}
	b.op = b.operator(t)
	return b
}

func (b *bundle) operator(t *testing.T) *ops.Operator {
	t.Helper()
	op, err := ops.New(t.Context(), b.pool, "public", pgstore.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	return op
}

func (b *bundle) exec(t *testing.T, sql string, args ...any) int64 {
	t.Helper()
	tag, err := b.pool.Exec(t.Context(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return tag.RowsAffected()
}

func one[T any](t *testing.T, b *bundle, sql string, args ...any) T {
	t.Helper()
	var value T
	if err := b.pool.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// append adds an event and returns its sequence.
func (b *bundle) append(t *testing.T, stream string, more ...string) int64 {
	t.Helper()
	args := ""
	for _, m := range more {
		args += ", " + m
	}
	return one[int64](t, b, `SELECT outbox_append($1, 'thing.done', '{"n": 1}'`+args+`)`, stream)
}

// appendMany adds so many events of 50 streams.
func (b *bundle) appendMany(t *testing.T, n int) {
	t.Helper()
	b.exec(t, `SELECT outbox_append_batch(array_agg('s-' || n % 50), array_agg('t'::text), array_agg('x'::bytea))
		FROM generate_series(1, $1) AS n`, n)
}

// kill makes messages dead, as a worker would.
func (b *bundle) kill(t *testing.T, reason string, sequences ...int64) {
	t.Helper()
	b.park(t, `dead_at = clock_timestamp(), attempts = 3, last_error = '`+reason+`'`, sequences...)
}

// fail leaves messages for another attempt in an hour, block behind others.
func (b *bundle) fail(t *testing.T, reason string, sequences ...int64) {
	t.Helper()
	b.park(t, `attempts = 2, available_at = clock_timestamp() + interval '1 hour', last_error = '`+reason+`'`, sequences...)
}

func (b *bundle) block(t *testing.T, sequences ...int64) {
	t.Helper()
	b.park(t, `blocked = true`, sequences...)
}

func (b *bundle) park(t *testing.T, set string, sequences ...int64) {
	t.Helper()
	if n := b.exec(t, `UPDATE outbox SET parked = true, `+set+` WHERE global_sequence = ANY ($1)`, sequences); n != int64(len(sequences)) {
		t.Fatalf("%d of %d messages were parked", n, len(sequences))
	}
}

// publish settles messages in one batch a partition, as a worker would.
func (b *bundle) publish(t *testing.T, sequences ...int64) {
	t.Helper()
	b.exec(t, `WITH gone AS (DELETE FROM outbox WHERE global_sequence = ANY ($1) RETURNING *),
		numbered AS (SELECT *, $2 + row_number() OVER (ORDER BY partition_key, global_sequence) AS place FROM gone)
		INSERT INTO outbox_deliveries (partition_key, lease_epoch, first_sequence, last_sequence, sequences,
			first_stream_sequence, last_stream_sequence, attempts, generations, message_count)
		SELECT partition_key, 1, min(global_sequence), max(global_sequence),
			CASE WHEN max(global_sequence) - min(global_sequence) + 1 > count(*) THEN array_agg(global_sequence ORDER BY global_sequence) END,
			min(place), max(place), jsonb_object_agg(global_sequence, attempts) FILTER (WHERE attempts > 0),
			jsonb_object_agg(global_sequence, generation) FILTER (WHERE generation > 0), count(*)
		FROM numbered GROUP BY partition_key`, sequences, b.last)
	b.last += int64(len(sequences))
}

// row is what the view shows of a message, and what it hides.
type row struct {
	Sequence, Generation, Attempts int64
	State                          string
	Blocked                        bool
	Due                            bool
	LastError                      *string
}

// queue reads the outbox's rows of one stream.
func (b *bundle) queue(t *testing.T, stream string) []row {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), `SELECT o.global_sequence, o.generation, o.attempts, m.state, o.blocked,
		o.available_at <= clock_timestamp(), o.last_error
		FROM outbox AS o JOIN outbox_messages AS m USING (global_sequence) WHERE o.stream_id = $1 ORDER BY 1`, stream)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// wantQueue compares a stream's rows, each written as "sequence state".
func (b *bundle) wantQueue(t *testing.T, stream string, want ...string) {
	t.Helper()
	var got []string
	for _, r := range b.queue(t, stream) {
		got = append(got, fmt.Sprintf("%d %s", r.Sequence, r.State))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("stream %s holds %q, want %q", stream, got, want)
	}
}

func at(sequence int64, state string) string { return fmt.Sprintf("%d %s", sequence, state) }

// audit is a row of the audit.
type audit struct {
	At      time.Time
	Actor   string
	Action  string
	Target  json.RawMessage
	Reason  *string
	Details json.RawMessage
}

func (b *bundle) audits(t *testing.T) []audit {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), `SELECT at, actor, action, target, reason, details FROM outbox_audit ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[audit])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// command is a command by a test for these messages.
func command(sequences ...int64) ops.Command {
	return ops.Command{Selection: ops.Selection{Sequences: sequences}, Actor: "test", Reason: "because"}
}
