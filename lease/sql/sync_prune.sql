-- Only rows that nobody but $2 leases and nothing lies behind. What the stream knows
-- of them is kept.
WITH gone AS (
       DELETE FROM {schema}.outbox_partitions AS p
        WHERE p.partition_key >= $1::int
          AND (p.lease_owner IS NULL OR p.lease_owner = $2 OR p.lease_until < clock_timestamp())
          AND NOT EXISTS (SELECT FROM {schema}.outbox AS o WHERE o.partition_key = p.partition_key)
    RETURNING p.partition_key, p.lease_epoch, p.fence_sequence, p.stream_sequence, coalesce(p.lease_owner, p.released_by) AS previous),
     told AS (
       INSERT INTO {schema}.outbox_ownership (kind, previous_id, previous_hostname, partition_keys, lease_epochs)
       SELECT 'removed', c.previous, {previous_hostname}, c.partition_keys, c.lease_epochs
         FROM (SELECT g.previous,
                      array_agg(g.partition_key ORDER BY g.partition_key) AS partition_keys,
                      array_agg(g.lease_epoch ORDER BY g.partition_key) AS lease_epochs
                 FROM gone AS g
                GROUP BY g.previous) AS c)
INSERT INTO {schema}.outbox_former_partitions AS f (partition_key, lease_epoch, fence_sequence, stream_sequence)
SELECT partition_key, lease_epoch, fence_sequence, stream_sequence
  FROM gone
ON CONFLICT (partition_key) DO UPDATE
   SET lease_epoch     = greatest(f.lease_epoch, EXCLUDED.lease_epoch),
       fence_sequence  = EXCLUDED.fence_sequence,
       stream_sequence = EXCLUDED.stream_sequence,
       removed_at      = EXCLUDED.removed_at
