-- The first undelivered rows of each partition, whatever became visible when.
-- A row behind a parked row of its stream is returned as blocked; while nothing
-- is parked that question costs one look at an empty index.
SELECT o.partition_key, o.global_sequence, o.generation, o.attempts, o.stream_id, o.topic,
       (SELECT EXISTS (SELECT FROM {schema}.outbox_parked AS any_parked
                        WHERE any_parked.partition_key = ANY ($1::smallint[])))
       AND EXISTS (SELECT FROM {schema}.outbox_parked AS p
                    WHERE p.partition_key = o.partition_key
                      AND p.stream_id = o.stream_id
                      AND p.global_sequence < o.global_sequence) AS blocked,
       o.available_at <= clock_timestamp() AS due
  FROM unnest($1::smallint[]) AS mine (partition_key)
 CROSS JOIN LATERAL (
         SELECT r.partition_key, r.global_sequence, r.generation, r.attempts, r.stream_id, r.topic, r.available_at
           FROM {schema}.outbox_ready AS r
          WHERE r.partition_key = mine.partition_key
          ORDER BY r.global_sequence
          LIMIT $2) AS o
 LIMIT $3
