-- Raises the epoch of every partition and leaves the owner empty: $1 is only told.
WITH taken AS (
       UPDATE {schema}.outbox_partitions AS p
          SET lease_owner = NULL,
              lease_until = NULL,
              lease_epoch = p.lease_epoch + 1,
              released_by = NULL,
              updated_at  = clock_timestamp()
         FROM (SELECT f.partition_key, f.lease_owner, f.released_by
                 FROM {schema}.outbox_partitions AS f
                ORDER BY f.partition_key
                  FOR NO KEY UPDATE OF f) AS was
        WHERE p.partition_key = was.partition_key
    RETURNING p.partition_key, p.lease_epoch, p.delivered, p.fence_sequence, p.stream_sequence, p.crashes, p.suspect, p.suspected,
              coalesce(was.lease_owner, was.released_by) AS previous),
     told AS (
       INSERT INTO {schema}.outbox_ownership
              (kind, worker_id, hostname, previous_id, previous_hostname, partition_keys, lease_epochs)
       SELECT 'solo', $1::uuid, $2::text, c.previous, {previous_hostname}, c.partition_keys, c.lease_epochs
         FROM (SELECT t.previous,
                      array_agg(t.partition_key ORDER BY t.partition_key) AS partition_keys,
                      array_agg(t.lease_epoch ORDER BY t.partition_key) AS lease_epochs
                 FROM taken AS t
                GROUP BY t.previous) AS c
        ORDER BY c.partition_keys[1])
SELECT taken.partition_key, taken.lease_epoch, taken.delivered, taken.fence_sequence, taken.stream_sequence, taken.crashes, taken.suspect, taken.suspected,
       (SELECT format('%s/%s', c.system_identifier, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)) FROM pg_control_system() AS c)
  FROM taken
