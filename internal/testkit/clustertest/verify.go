package clustertest

import (
	"context"
	"testing"

	"github.com/postrider/postrider/internal/ledger"
)

// epochsDescending counts the batches that were settled under an older epoch than one before them.
const epochsDescending = `
SELECT count(*) FROM (
  SELECT lease_epoch, max(lease_epoch) OVER (PARTITION BY partition_key ORDER BY id ROWS UNBOUNDED PRECEDING) AS highest
    FROM outbox_deliveries) AS d
 WHERE lease_epoch < highest`

// Verify ends the load, waits until everything was delivered, and judges: nothing lost, reordered, doubled,
// altered or attempted twice, and tables that say the same as the subscriber.
func (c *Cluster) Verify(t testing.TB) ledger.Report {
	t.Helper()
	c.mu.Lock()
	loads, s := c.loads, c.subscriber
	c.mu.Unlock()
	for _, p := range loads {
		p.Stop(t)
	}
	c.Ledger.Finish()
	c.WaitDrained(t)
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	if err := s.Checker.Wait(ctx); err != nil {
		t.Error(err)
	}
	s.waitEnd(t)
	report := s.Checker.Report()
	t.Log(report)
	if !report.OK() || report.Duplicates != 0 {
		t.Error("the ledger's checker found faults")
	}
	if report.Received == 0 {
		t.Error("nothing was produced: the test proves nothing")
	}
	for _, check := range []struct {
		what, sql string
		want      int
	}{
		{"events in the table", `SELECT count(*) FROM events`, report.Received},
		{"events in the published history", `SELECT coalesce(sum(message_count), 0) FROM outbox_deliveries`, report.Received},
		{"published events in outbox_messages", `SELECT count(*) FROM outbox_messages WHERE state = 'published'`, report.Received},
		{"batches with counted attempts", `SELECT count(*) FROM outbox_deliveries WHERE attempts IS NOT NULL`, 0},
		{"batches under an older epoch than one before", epochsDescending, 0},
		{"failures in the throughput", `SELECT coalesce(sum(failed), 0) FROM outbox_throughput`, 0},
	} {
		if n := c.Count(t, check.sql); n != check.want {
			t.Errorf("%s: %d, want %d", check.what, n, check.want)
		}
	}
	return report
}
