package ui_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/ops/replay"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui"
)

// outboxBundle is an outbox without workers, and a monitor on it.
type outboxBundle struct {
	pool   *pgxpool.Pool
	op     *ops.Operator
	again  *replay.Store
	source ui.Source
	place  int64 // in the stream
}

func newPages(t *testing.T, partitions int) *outboxBundle {
	t.Helper()
	return onOutbox(t, pgtest.Pool(t, pgtest.Migrated(t, partitions)))
}

// onOutbox is a monitor on an outbox that others may work on.
func onOutbox(t *testing.T, pool *pgxpool.Pool) *outboxBundle {
	t.Helper()
	b := &outboxBundle{pool: pool}
	var err error
	if b.op, err = ops.New(t.Context(), b.pool, "public", pgstore.Relation{}); err != nil {
		t.Fatal(err)
	}
	if b.again, err = replay.New(t.Context(), b.pool, "public", pgstore.Relation{}); err != nil {
		t.Fatal(err)
	}
	b.look(t, nil)
	return b
}

// look has the monitor show a worker without leases, if it is given.
func (b *outboxBundle) look(t *testing.T, alone func() heartbeat.Worker) {
	t.Helper()
	s := newStores(t, b.pool)
	var err error
	b.source, err = ui.NewSource(ui.SourceConfig{
		Workers: s.workers, Leases: s.leases, Deliveries: s.deliveries, Strategy: partition.Modulo, HeartbeatTTL: ttl, BacklogShare: 1, Alone: alone,
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (b *outboxBundle) serve(t *testing.T, options ui.Options) *httptest.Server {
	t.Helper()
	options.Operator, options.Replays = b.op, b.again
	if options.Source == nil {
		options.Source = b.source
	}
	return serve(t, options)
}

func (b *outboxBundle) exec(t *testing.T, sql string, args ...any) int64 {
	t.Helper()
	tag, err := b.pool.Exec(t.Context(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return tag.RowsAffected()
}

func (b *outboxBundle) one(t *testing.T, sql string, args ...any) (n int64) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (b *outboxBundle) text(t *testing.T, sql string, args ...any) (s string) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), sql, args...).Scan(&s); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return s
}

// append adds an event and returns its sequence.
func (b *outboxBundle) append(t *testing.T, stream string) int64 {
	t.Helper()
	return b.one(t, `SELECT outbox_append($1, 'thing.done', '{"n": 1}')`, stream)
}

// kill makes messages dead, as a worker would.
func (b *outboxBundle) kill(t *testing.T, reason string, sequences ...int64) {
	t.Helper()
	b.exec(t, `UPDATE outbox SET parked = true, dead_at = clock_timestamp(), attempts = 3, available_at = 'infinity', last_error = $2
		WHERE global_sequence = ANY ($1)`, sequences, reason)
}

// fail leaves messages for another attempt in an hour.
func (b *outboxBundle) fail(t *testing.T, reason string, sequences ...int64) {
	t.Helper()
	b.exec(t, `UPDATE outbox SET parked = true, attempts = 2, available_at = clock_timestamp() + interval '1 hour', last_error = $2
		WHERE global_sequence = ANY ($1)`, sequences, reason)
}

func (b *outboxBundle) block(t *testing.T, sequences ...int64) {
	t.Helper()
	b.exec(t, `UPDATE outbox SET parked = true, blocked = true WHERE global_sequence = ANY ($1)`, sequences)
}

// publish settles messages in one batch a partition, as a worker would.
func (b *outboxBundle) publish(t *testing.T, sequences ...int64) {
	t.Helper()
	b.exec(t, `WITH gone AS (DELETE FROM outbox WHERE global_sequence = ANY ($1) RETURNING *),
		numbered AS (SELECT *, $2 + row_number() OVER (ORDER BY partition_key, global_sequence) AS place FROM gone)
		INSERT INTO outbox_deliveries (partition_key, lease_epoch, first_sequence, last_sequence, sequences,
			first_stream_sequence, last_stream_sequence, message_count)
		SELECT partition_key, 1, min(global_sequence), max(global_sequence),
			CASE WHEN max(global_sequence) - min(global_sequence) + 1 > count(*) THEN array_agg(global_sequence ORDER BY global_sequence) END,
			min(place), max(place), count(*)
		FROM numbered GROUP BY partition_key`, sequences, b.place)
	b.place += int64(len(sequences))
}

// post sends a form as the page itself would.
func post(t *testing.T, server *httptest.Server, path string, form url.Values, edit ...func(*http.Request)) answer {
	t.Helper()
	return call(t, server, http.MethodPost, path, append([]func(*http.Request){
		header("Content-Type", "application/x-www-form-urlencoded"), header("Sec-Fetch-Site", "same-origin"),
		func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(form.Encode())) },
	}, edit...)...)
}

func wantLacks(t *testing.T, got answer, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(got.text, part) {
			t.Errorf("%s: the body holds %q", got.Request.URL, part)
		}
	}
}
