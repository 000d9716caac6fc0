-- What carries this worker's name although the worker knows nothing of it: the
-- answer to an acquisition was lost.
WITH released AS (
       UPDATE {schema}.outbox_partitions AS p
          SET lease_owner = NULL,
              lease_until = NULL,
              released_by = $1,
              updated_at  = clock_timestamp()
        WHERE p.lease_owner = $1
    RETURNING p.partition_key, p.lease_epoch),
     told AS (
       INSERT INTO {schema}.outbox_ownership (kind, previous_id, previous_hostname, partition_keys, lease_epochs)
       SELECT 'released', c.previous, {previous_hostname}, c.partition_keys, c.lease_epochs
         FROM (SELECT $1::uuid AS previous,
                      array_agg(r.partition_key ORDER BY r.partition_key) AS partition_keys,
                      array_agg(r.lease_epoch ORDER BY r.partition_key) AS lease_epochs
                 FROM released AS r
               HAVING count(*) > 0) AS c)
SELECT released.partition_key
  FROM released
