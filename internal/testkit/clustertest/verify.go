package clustertest

import (
	"context"
	"slices"
	"testing"

	"github.com/postrider/postrider/internal/ledger"
)

// epochsDescending counts the batches that were settled under an older epoch than one before them.
const epochsDescending = `
SELECT count(*) FROM (
  SELECT lease_epoch, max(lease_epoch) OVER (PARTITION BY partition_key ORDER BY id ROWS UNBOUNDED PRECEDING) AS highest
    FROM outbox_deliveries) AS d
 WHERE lease_epoch < highest`

// Allowance is a trace that a scenario leaves on purpose.
type Allowance string

// Failures permits attempts that were counted: some messages were unfit, for a while.
const Failures Allowance = "failures"

// Replays permits events that were published again, under higher generations.
const Replays Allowance = "replays"

// Drain ends the load and waits until everything was delivered.
func (c *Cluster) Drain(t testing.TB) {
	t.Helper()
	c.mu.Lock()
	loads := c.loads
	c.mu.Unlock()
	for _, p := range loads {
		p.Stop(t)
	}
	c.Ledger.Finish()
	c.WaitDrained(t)
}

// Verify drains the cluster and judges: nothing lost, reordered, doubled, altered or attempted twice, and tables that
// say the same as the subscriber and the stream. Allowances leave out what the scenario broke itself.
func (c *Cluster) Verify(t testing.TB, allowed ...Allowance) ledger.Report {
	t.Helper()
	c.Drain(t)
	c.mu.Lock()
	s := c.subscriber
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	if err := s.Checker.Wait(ctx); err != nil {
		t.Error(err)
	}
	s.WaitEnd(t)
	report := s.Checker.Report()
	t.Log(report)
	if !report.OK() || report.Duplicates != 0 {
		t.Error("the ledger's checker found faults")
	}
	if report.Received == 0 {
		t.Error("nothing was produced: the test proves nothing")
	}
	c.verifyTables(t, report.Received, slices.Contains(allowed, Failures), slices.Contains(allowed, Replays))
	c.verifyStream(t, report.Received)
	c.VerifyOwnership(t)
	return report
}

// verifyTables compares the tables with the receptions.
func (c *Cluster) verifyTables(t testing.TB, received int, failures, replays bool) {
	t.Helper()
	history := `SELECT coalesce(sum(message_count), 0) FROM outbox_deliveries`
	if replays { // first deliveries alone
		history += ` WHERE generations IS NULL`
		history = `SELECT (` + history + `) + (SELECT coalesce(sum(message_count - (SELECT count(*) FROM jsonb_object_keys(generations))), 0)
			FROM outbox_deliveries WHERE generations IS NOT NULL)`
	}
	checks := []struct {
		what, sql string
		want      int
	}{
		{"events in the table and in archives", `SELECT (SELECT count(*) FROM events)
			+ (SELECT coalesce(sum((details ->> 'archived')::int), 0) FROM outbox_audit WHERE action = 'events.drop')`, received},
		{"events in the published history", history, received},
		{"published events in outbox_messages", `SELECT count(*) FROM outbox_messages WHERE state = 'published'`, received},
		{"batches under an older epoch than one before", epochsDescending, 0},
		{"batches with counted attempts", `SELECT count(*) FROM outbox_deliveries WHERE attempts IS NOT NULL`, 0},
		{"failures in the throughput", `SELECT coalesce(sum(failed), 0) FROM outbox_throughput`, 0},
	}
	if failures {
		checks = checks[:len(checks)-2]
	}
	for _, check := range checks {
		if n := c.Count(t, check.sql); n != check.want {
			t.Errorf("%s: %d, want %d", check.what, n, check.want)
		}
	}
}

// verifyStream goes through the stream once more, by itself.
func (c *Cluster) verifyStream(t testing.TB, received int) {
	t.Helper()
	contents := c.Contents(t)
	t.Log(contents)
	for _, fault := range contents.Faults {
		t.Error(fault)
	}
	if contents.faults > len(contents.Faults) {
		t.Errorf("and %d more faults of the stream", contents.faults-len(contents.Faults))
	}
	if len(contents.Copies) != received {
		t.Errorf("the stream holds %d events, %d were received", len(contents.Copies), received)
	}
	if contents.Watermarks == 0 {
		t.Error("the stream holds no watermark: nothing was published under the fence")
	}
}
