-- Takes the free ones among the partitions asked for. A row that still names
-- this worker is free too: the process has given that lease up before it asks.
-- So are those of somebody who froze the outbox and died.
-- SKIP LOCKED: a row that somebody else is taking now will be theirs.
-- While the outbox is frozen only $4 gets leases.
-- A predecessor that let its lease run out may have crashed over its work.
-- Who had them is told in the same statement: both are done or neither.
WITH freezer AS MATERIALIZED (
       SELECT s.frozen_by, {frozen} AS holds FROM {schema}.outbox_settings AS s),
     taken AS (
       UPDATE {schema}.outbox_partitions AS p
          SET lease_owner = $1,
              lease_epoch = p.lease_epoch + 1,
              lease_until = clock_timestamp() + $2::interval,
              released_by = NULL,
              crashes     = p.crashes + (p.lease_owner IS NOT NULL AND p.lease_owner <> $1)::int,
              suspected   = p.suspected + (p.suspect IS NOT NULL AND p.lease_owner IS NOT NULL AND p.lease_owner <> $1)::int,
              updated_at  = clock_timestamp()
         FROM (SELECT f.partition_key, f.lease_owner, f.lease_until, f.released_by
                 FROM {schema}.outbox_partitions AS f
                WHERE f.partition_key = ANY ($3::smallint[])
                  AND (f.lease_owner IS NULL OR f.lease_owner = $1 OR f.lease_until < clock_timestamp()
                       OR f.lease_owner = (SELECT z.frozen_by FROM freezer AS z WHERE NOT z.holds))
                  AND ($4::boolean OR NOT (SELECT z.holds FROM freezer AS z))
                ORDER BY f.partition_key
                  FOR NO KEY UPDATE OF f SKIP LOCKED) AS was
        WHERE p.partition_key = was.partition_key
    RETURNING p.partition_key, p.lease_epoch, p.delivered, p.fence_sequence, p.stream_sequence, p.crashes, p.suspect, p.suspected,
              was.lease_owner AS silent, was.lease_until AS ran_out, was.released_by),
     told AS (
       INSERT INTO {schema}.outbox_ownership
              (kind, worker_id, hostname, previous_id, previous_hostname, lease_until, partition_keys, lease_epochs)
       SELECT c.kind, $1, coalesce((SELECT w.hostname FROM {schema}.outbox_workers AS w WHERE w.worker_id = $1), $5::text),
              c.previous, {previous_hostname}, c.ran_out, c.partition_keys, c.lease_epochs
         FROM (SELECT CASE WHEN $4::boolean                                 THEN 'resizing'
                           WHEN coalesce(t.silent, t.released_by) = $1      THEN 'retaken'
                           WHEN t.silent IS NOT NULL                        THEN 'taken-over'
                           WHEN t.released_by IS NOT NULL                   THEN 'moved'
                           ELSE 'taken' END AS kind,
                      coalesce(t.silent, t.released_by) AS previous,
                      max(t.ran_out) FILTER (WHERE t.silent <> $1 AND t.ran_out < clock_timestamp()) AS ran_out,
                      array_agg(t.partition_key ORDER BY t.partition_key) AS partition_keys,
                      array_agg(t.lease_epoch ORDER BY t.partition_key) AS lease_epochs
                 FROM taken AS t
                GROUP BY 1, 2) AS c
        ORDER BY c.partition_keys[1])
SELECT taken.partition_key, taken.lease_epoch, taken.delivered, taken.fence_sequence, taken.stream_sequence, taken.crashes, taken.suspect, taken.suspected,
       (SELECT format('%s/%s', c.system_identifier, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)) FROM pg_control_system() AS c)
  FROM taken
