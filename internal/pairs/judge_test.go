package pairs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/partition"
)

// all holds each message that was ever stored.
func (s *stage) all(t *testing.T) []ledger.Message {
	t.Helper()
	return slices.Concat(s.streams(t)...)
}

// settleAll ends the load and waits until everything is delivered, and what a stream lost is back.
func (s *stage) settleAll(t *testing.T) {
	t.Helper()
	s.load.Stop(t)
	// One more event for each partition, so that each has to move.
	for id := range s.Partitions() {
		stream := s.stream("last", id, partition.ID(id)) // a handful
		s.committed(t, event(stream), event(stream))
	}
	s.Ledger.Finish()
	n := 0
	empty := func(ctx context.Context) (bool, error) {
		err := s.Pool.QueryRow(ctx, `SELECT count(*) FROM outbox`).Scan(&n)
		return err == nil && n == 0, err
	}
	wait := func() string { return fmt.Sprintf("it holds %d rows:\n%s", n, s.waiting(t)) }
	clustertest.Until(t, "the outbox is empty", empty, wait)
	var missing []string
	last := uint64(0)
	clustertest.Until(t, "the stream holds every event", func(ctx context.Context) (bool, error) {
		stream, err := s.js.Stream(ctx, natstest.StreamName)
		if err != nil {
			return false, err
		}
		at := stream.CachedInfo().State.LastSeq
		if at == last && len(missing) > 0 {
			return false, nil // nothing came since
		}
		last, missing = at, s.missing(t) //nolint:contextcheck // of the test
		return len(missing) == 0, nil
	}, func() string {
		return fmt.Sprintf("it lacks %d events, and nothing waits in the outbox: %s", len(missing), strings.Join(missing[:min(len(missing), 10)], ", "))
	})
	clustertest.Until(t, "the outbox is empty again", empty, wait) // what came back is marked
}

// missing lists the events that the database knows and the stream does not hold, but for those that nobody can bring back.
func (s *stage) missing(t *testing.T) (missing []string) {
	t.Helper()
	held := map[uuid.UUID]bool{}
	for _, m := range s.tape(t) {
		held[m.EventID] = true
	}
	rows, err := s.Pool.Query(t.Context(), `SELECT sequence, event_id, stream_id, outbox_partition(coalesce(routing_key, stream_id), $1) FROM events ORDER BY sequence`, s.Partitions())
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var sequence int64
		var id uuid.UUID
		var stream string
		var lies int
		if err := rows.Scan(&sequence, &id, &stream, &lies); err != nil {
			t.Fatal(err)
		}
		unhealed := s.swept[sequence] && s.permits&repeats != 0
		if !held[id] && !unhealed && !s.unhealed[id] {
			missing = append(missing, fmt.Sprintf("%d (%s, partition %d)", sequence, stream, lies))
		}
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	return missing
}

// judge compares ledger, stream and tables.
func (s *stage) judge(t *testing.T) {
	t.Helper()
	s.judgeLedger(t)
	s.judgeTapes(t)
	s.judgeStream(t)
	s.judgeTables(t)
	s.judgeGaps(t)
	s.judgeEffects(t)
	if s.awaited { // in all pairs it would take hours
		var now time.Time
		if err := s.Pool.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&now); err != nil {
			t.Fatal(err)
		}
		s.WaitCount(t, 1, `SELECT count(*) FROM outbox_audit WHERE action = 'stream.audit' AND at - make_interval(secs => (details ->> 'seconds')::float8) > $1`, now)
	}
	for _, w := range s.hired {
		if strings.Contains(w.Stderr(), "they are missing in its middle") {
			t.Errorf("an audit raised a false alarm: %s", w.Stderr())
		}
	}
}

// judgeLedger has the checker receive what was ever stored, as a consumer that was never away.
func (s *stage) judgeLedger(t *testing.T) {
	t.Helper()
	checker := s.checker(t, ledger.Config{ContiguousVersions: true})
	began := time.Now()
	offset, seen := uint64(0), 0
	for i, tape := range s.streams(t) {
		at := began.Add(time.Duration(i) * time.Second)
		if i > 0 {
			checker.Explain("the stream was lost", at, at)
		}
		highest := offset
		for _, m := range tape {
			m.StreamSequence += offset
			highest = max(highest, m.StreamSequence)
			m.ReceivedAt = at
			if _, gone := s.forgotten[m.EventID]; gone {
				seen++
				continue // judged by themselves
			}
			checker.Receive(m)
		}
		offset = highest
	}
	report := checker.Report()
	t.Log(report)
	if !report.OK() {
		t.Error("the ledger's checker found faults")
	}
	if report.Received == 0 {
		t.Error("nothing was produced: the pair proves nothing")
	}
	s.judgeForgotten(t, seen)
}

// checker judges by what the operations permit.
func (s *stage) checker(t *testing.T, config ledger.Config) *ledger.Checker {
	t.Helper()
	config.Ledger, config.AllowMoved = s.Ledger, s.permits&moves != 0
	if config.AllowMoved {
		config.Ordering = ledger.ByStream
	}
	checker, err := ledger.NewChecker(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range s.late {
		checker.Park(stream)
	}
	return checker
}

// judgeForgotten wants the events that the database has forgotten in the stream once, if they were published, and never
// otherwise.
func (s *stage) judgeForgotten(t *testing.T, seen int) {
	t.Helper()
	want := 0
	for _, published := range s.forgotten {
		if published {
			want++
		}
	}
	if seen != want {
		t.Errorf("%d messages of forgotten events were stored, want the %d that were published before", seen, want)
	}
}

// judgeStream looks at the stream as it is now: whole batches under epochs that never descend.
func (s *stage) judgeStream(t *testing.T) {
	t.Helper()
	contents := s.Contents(t)
	t.Log(contents)
	for _, fault := range contents.Faults {
		t.Error(fault)
	}
}

// judgeTables wants each event published once in outbox_messages, and no alarm without a reason.
func (s *stage) judgeTables(t *testing.T) {
	t.Helper()
	swept := make([]int64, 0, len(s.swept))
	for sequence := range s.swept {
		swept = append(swept, sequence)
	}
	for _, check := range []struct {
		what, sql string
		args      []any
	}{
		{"events are not published in outbox_messages", `SELECT e.sequence FROM events AS e WHERE NOT e.sequence = ANY ($1)
			AND NOT EXISTS (SELECT FROM outbox_messages AS m WHERE m.global_sequence = e.sequence AND m.state = 'published')`, []any{swept}},
		{"rows of outbox_messages are of no event", `SELECT m.global_sequence FROM outbox_messages AS m
			WHERE NOT EXISTS (SELECT FROM events AS e WHERE e.sequence = m.global_sequence)`, nil},
		{"events are more than once in outbox_messages", `SELECT global_sequence FROM outbox_messages GROUP BY 1 HAVING count(*) > 1`, nil},
		{"rows of outbox_messages are not published", `SELECT global_sequence FROM outbox_messages WHERE state <> 'published'`, nil},
	} {
		if found := s.sequences(t, check.sql, check.args...); len(found) > 0 {
			t.Errorf("%d %s: sequences %v\n%s", len(found), check.what, found[:min(len(found), 10)], s.history(t, found[0]))
		}
	}
	s.VerifyOwnership(t)
	if n := s.alarms(t); n > 0 && s.permits&forgets == 0 {
		t.Errorf("%d alarms tell of forgotten events, and none were", n)
	}
}

// history describes the deliveries of an event.
func (s *stage) history(t *testing.T, sequence int64) string {
	t.Helper()
	rows, _ := s.Pool.Query(t.Context(), `SELECT to_jsonb(d)::text FROM outbox_deliveries AS d
		WHERE $1 = ANY (coalesce(sequences, ARRAY(SELECT generate_series(first_sequence, last_sequence)))) ORDER BY id`, sequence)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("deliveries of %d:\n%s", sequence, strings.Join(lines, "\n"))
}

// judgeGaps wants `gaps detect` to find what is so, and nothing else.
func (s *stage) judgeGaps(t *testing.T) {
	t.Helper()
	want := map[string]int{}
	known := map[int64]bool{}
	for _, sequence := range s.sequences(t, `SELECT global_sequence FROM outbox_messages WHERE state = 'published'`) {
		known[sequence] = true
	}
	held := map[int64]bool{}
	for _, m := range s.tape(t) {
		if _, gone := s.forgotten[m.EventID]; gone {
			want["unknown-event"]++
			continue
		}
		held[m.Sequence] = true
		if !known[m.Sequence] {
			want["unrecorded"]++
		}
	}
	if s.permits&reports != 0 {
		lost := s.sequences(t, `SELECT sequence FROM events WHERE event_id = ANY ($1)`, slices.Collect(maps.Keys(s.unhealed)))
		if n := len(slices.DeleteFunc(lost, func(sequence int64) bool { return held[sequence] || !known[sequence] })); n > 0 {
			want["not-in-stream"] = n
		}
	}
	unheard := 0 // neither the history nor the stream has them
	for _, sequence := range s.sequences(t, `SELECT sequence FROM events`) {
		if !known[sequence] && !held[sequence] {
			unheard++
		}
	}
	p := clustertest.Launch(t, "gaps detect", s.Environment(), "gaps", "detect", "--json")
	code := p.Exit(t)
	var found struct {
		Counts map[string]int `json:"counts"`
		Gaps   []struct {
			Kind     string `json:"kind"`
			Sequence int64  `json:"global_sequence"`
			Position int64  `json:"stream_sequence"`
			Detail   string `json:"detail"`
		} `json:"gaps"`
		Notes []string `json:"notes"`
	}
	if err := json.Unmarshal([]byte(p.Stdout()), &found); err != nil {
		t.Fatalf("gaps detect: %v: %s%s", err, p.Stdout(), p.Stderr())
	}
	if notes := strings.Join(found.Notes, "; "); unheard > 0 && !strings.Contains(notes, "not judged") {
		want["never-enqueued"] = unheard // nothing tells them from those
	}
	for kind, n := range found.Counts {
		if n == 0 {
			delete(found.Counts, kind)
		}
	}
	if fmt.Sprint(found.Counts) != fmt.Sprint(want) || (code == 0) != (len(want) == 0) {
		t.Errorf("gaps detect finds %v and ends with %d, want %v; notes: %s", found.Counts, code, want, strings.Join(found.Notes, "; "))
		for _, g := range found.Gaps {
			if g.Kind != "unknown-event" && g.Sequence > 0 {
				t.Logf("%+v; %s", g, s.history(t, g.Sequence))
			}
		}
	}
}

const (
	// replayStep lies between the generations of two replays.
	replayStep = 100
	// unselected is no number of events.
	unselected = -1
)

// wantReplayed wants a replay to have selected what was there when it was made, and each event that it counted once under its generation.
func (s *stage) wantReplayed(t *testing.T) {
	t.Helper()
	rows, err := s.Pool.Query(t.Context(), `SELECT generation, replayed, state, last_sequence, selected, selected - replayed - gone - failed FROM outbox_replays`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	came := map[int32]map[int64]bool{} // by the replay's generation, without what resizes and failovers add to it
	for _, m := range s.all(t) {
		generation := m.Generation / replayStep * replayStep
		if came[generation] == nil {
			came[generation] = map[int64]bool{}
		}
		came[generation][m.Sequence] = true
	}
	for rows.Next() {
		var generation int32
		var count, last, selected, left int
		var state string
		if err := rows.Scan(&generation, &count, &state, &last, &selected, &left); err != nil {
			t.Fatal(err)
		}
		if want, made := s.selects[last]; !made || want != unselected && want != selected {
			t.Errorf("a replay up to %d selected %d events; by their ends replays were to select %v", last, selected, s.selects)
		}
		if left != 0 {
			t.Errorf("a replay selected %d events, and is done with %d of them left", selected, left)
		}
		if state != "done" {
			t.Errorf("a replay ended as %s", state)
		}
		if got := len(came[generation]); got != count {
			t.Errorf("a replay says that it queued %d events, %d came", count, got)
		}
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
}
