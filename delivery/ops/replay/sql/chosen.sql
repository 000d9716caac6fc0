-- The next rows that were chosen for retry $1 behind $2, at most $3, and where
-- they lie; those that are not dead or failed any more without a place.
SELECT x.sequence, o.partition_key
  FROM (SELECT c.sequence FROM {schema}.outbox_replay_sequences AS c
         WHERE c.replay_id = $1 AND c.sequence > $2
         ORDER BY c.sequence
         LIMIT $3) AS x
  LEFT JOIN {schema}.outbox AS o
         ON o.partition_key = ANY ($4::smallint[]) AND o.global_sequence = x.sequence AND o.parked
        AND (o.dead_at IS NOT NULL OR NOT o.blocked AND o.attempts > 0)
 ORDER BY x.sequence
