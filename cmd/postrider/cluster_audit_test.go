package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/slow"
)

// losing is a cluster whose stream loses messages in its middle.
type losing struct{ *clustertest.Cluster }

// placed are the events of the history, and where each delivery lies.
const placed = `WITH placed AS (
	SELECT d.id, s.sequence, CASE WHEN d.stream_sequences IS NULL THEN d.first_stream_sequence + s.n - 1 ELSE s.at END AS at, d.generations ? s.sequence::text AS again
	  FROM outbox_deliveries AS d
	 CROSS JOIN LATERAL unnest(coalesce(d.sequences, ARRAY(SELECT generate_series(d.first_sequence, d.last_sequence))), d.stream_sequences)
	       WITH ORDINALITY AS s (sequence, at, n)) `

// lose deletes the messages of every n-th event between two sequences, and returns how many.
func (c losing) lose(t *testing.T, from, to, every int) int {
	t.Helper()
	rows, err := c.Pool.Query(t.Context(), placed+`SELECT at FROM placed WHERE sequence BETWEEN $1 AND $2 AND sequence % $3 = 0`, from, to, every)
	if err != nil {
		t.Fatal(err)
	}
	positions, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		t.Fatal(err)
	}
	stream, err := c.NATS.JetStream(t).Stream(t.Context(), natstest.StreamName)
	if err != nil {
		t.Fatal(err)
	}
	deleting, ctx := errgroup.WithContext(t.Context())
	deleting.SetLimit(64)
	for _, p := range positions {
		deleting.Go(func() error { return stream.DeleteMsg(ctx, uint64(p)) })
	}
	if err := deleting.Wait(); err != nil {
		t.Fatal(err)
	}
	return len(positions)
}

// back waits until so many events were published again, each once and the streams' events in their order; and wants one alarm.
func (c losing) back(t *testing.T, lost int, within time.Duration, workers ...*clustertest.Worker) {
	t.Helper()
	began, late, look := time.Now(), time.After(within), time.NewTicker(100*time.Millisecond)
	defer look.Stop()
	for n := 0; n < lost; {
		select {
		case <-look.C:
			n = c.Count(t, `SELECT count(*) FROM outbox_deliveries CROSS JOIN LATERAL jsonb_object_keys(generations)`)
		case <-late:
			t.Fatalf("of %d that were lost %d are back after %s; audits:\n%s\n%s", lost, n, within, c.certificates(t), c.heard(workers))
		}
	}
	t.Logf("%d came back within %s; audits:\n%s", lost, time.Since(began), c.certificates(t))
	c.WaitDrained(t)
	for what, sql := range map[string]string{
		"published again more than once": placed + `SELECT count(*) - count(DISTINCT sequence) FROM placed WHERE again`,
		"out of the order of their streams": placed + `SELECT count(*) FROM (SELECT p.sequence < lag(p.sequence) OVER (PARTITION BY e.stream_id ORDER BY p.at) AS behind
			FROM placed AS p JOIN events AS e USING (sequence) WHERE p.again) AS o WHERE o.behind`,
		"rows of the outbox that are left": `SELECT count(*) FROM outbox`,
	} {
		if n := c.Count(t, sql); n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
	if n := strings.Count(c.heard(workers), "they are missing in its middle"); n != 1 {
		t.Errorf("%d alarms, want one", n)
	}
}

// certificates are those of all audits, without their partitions.
func (c losing) certificates(t *testing.T) (text string) {
	t.Helper()
	if err := c.Pool.QueryRow(t.Context(), `SELECT coalesce(string_agg(at::text || ' ' || (details - 'partitions')::text, chr(10) ORDER BY id), '')
		FROM outbox_audit WHERE action = 'stream.audit'`).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}

func (c losing) heard(workers []*clustertest.Worker) string {
	var all strings.Builder
	for _, w := range workers {
		all.WriteString(w.Stderr())
	}
	return all.String()
}

// One worker audits; when it is killed amid that the other one goes on, and what the stream lost comes back.
func TestAnAuditOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	c := losing{clustertest.New(t, clustertest.Config{Partitions: 8, Flags: append(shortTTL(), "--audit=10s")})}
	c.Backlog(t, 20_000)
	workers := c.Start(t, 2, "--http-addr=127.0.0.1:0")
	c.WaitShared(t, workers...)
	c.WaitDrained(t)
	c.WaitCount(t, 2, `SELECT count(*) FROM outbox_audit WHERE action = 'stream.audit' AND details ->> 'missing' = '0'`)
	owners, err := c.Owners(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	auditor, other := workers[0], workers[1]
	if owners[0] == other.ID {
		auditor, other = other, auditor
	}
	if _, text := ask(t, other, http.MethodGet, "/metrics", ""); !strings.Contains(text, "\noutbox_audit_ended_timestamp_seconds 0\n") {
		t.Error("both workers audit")
	}
	if _, text := ask(t, auditor, http.MethodGet, "/metrics", ""); !strings.Contains(text, "\noutbox_audit_missing_events 0\n") {
		t.Error("the auditor does not count")
	}
	lost := c.lose(t, 5000, 15_000, 10)
	c.WaitCount(t, 1, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'postrider audit' AND query_start > $1`, time.Now())
	auditor.Signal(t, syscall.SIGKILL)
	c.back(t, lost, time.Minute, auditor, other)
	if _, text := ask(t, other, http.MethodGet, "/metrics", ""); !strings.Contains(text, "\noutbox_stream_losses_total 1\n") {
		t.Error("the loss was not counted")
	}
}

// Ten thousand messages that were deleted from the middle of a long stream are found within the audit's interval.
func TestAnAuditOfALongStream(t *testing.T) {
	t.Parallel()
	slow.Test(t)
	const events, every = 400_000, 2 * time.Minute // of a million it takes somewhat longer
	c := losing{clustertest.New(t, clustertest.Config{Partitions: 64, Flags: []string{"--audit=" + every.String()}})}
	began := time.Now()
	for n := 0; n < events; n += 10_000 {
		if _, err := c.Pool.Exec(t.Context(), `SELECT outbox_append_batch(array_agg('s-' || n % 5000), array_agg('t'::text), array_agg('x'::bytea)) FROM generate_series(1, 10000) AS n`); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s: appended", time.Since(began))
	workers := c.Start(t, 2, "--batch-size=2000", "--in-flight=20000", "--http-addr=127.0.0.1:0")
	c.WaitDrained(t)
	t.Logf("%s: published", time.Since(began))
	lost := c.lose(t, events/4, events*3/4, events/2/10_000)
	t.Logf("%s: deleted %d", time.Since(began), lost)
	c.back(t, lost, every, workers...)
}
