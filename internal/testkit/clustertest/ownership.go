package clustertest

import "testing"

// VerifyOwnership compares the history of ownership with the leases, whose last change it must have, and with the batches, each of which had
// an owner. Workers may run.
func (c *Cluster) VerifyOwnership(t testing.TB) {
	t.Helper()
	const untold = `SELECT count(*) FROM (SELECT DISTINCT partition_key, lease_epoch FROM outbox_deliveries WHERE lease_epoch > 0) AS d
		WHERE NOT EXISTS (SELECT FROM outbox_ownership AS o
			WHERE o.worker_id IS NOT NULL AND o.lease_epochs[array_position(o.partition_keys, d.partition_key)] = d.lease_epoch)`
	if n := c.Count(t, untold); n > 0 {
		t.Errorf("the history does not tell whose %d partitions were when their batches were delivered", n)
	}
	// A worker without leasing is in the history, and has no lease.
	const others = `SELECT count(*) FROM outbox_partitions AS p LEFT JOIN LATERAL (
			SELECT CASE WHEN o.kind <> 'solo' THEN o.worker_id END AS worker_id FROM outbox_ownership AS o
			 WHERE p.partition_key = ANY (o.partition_keys) ORDER BY o.id DESC LIMIT 1) AS last ON true
		WHERE last.worker_id IS DISTINCT FROM p.lease_owner`
	if n := c.Count(t, others); n > 0 {
		t.Errorf("%d leases are another's than the history says", n)
	}
}
