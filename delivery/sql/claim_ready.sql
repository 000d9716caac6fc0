-- The first undelivered rows of each partition above its cursor, with $9 up to what
-- was proven safe right before in this session, or else up to $5.
-- A row behind a parked row of its stream is returned as blocked; while nothing
-- is parked that question costs one look at an empty index. Replayed rows hold up
-- nothing: they were published before. With $6 a failed row
-- blocks its whole partition, with $7 nothing is ever blocked, and with $8 dead
-- rows block nothing. A row's place is where it lies now; a mark looks there first.
SELECT o.partition_key, o.global_sequence, o.generation, o.attempts, o.stream_id, o.topic,
       {anything_parked}
       AND NOT $7::boolean
       AND EXISTS (SELECT FROM {schema}.outbox_parked AS p
                    WHERE p.partition_key = o.partition_key
                      AND p.stream_id = o.stream_id
                      AND p.global_sequence < o.global_sequence
                      AND p.replay_id IS NULL
                      AND NOT ($8::boolean AND p.dead_at IS NOT NULL)) AS blocked,
       o.available_at <= clock_timestamp() AS due,
       o.place
  FROM unnest($1::smallint[], $2::bigint[], $3::int[]) AS mine (partition_key, after, most)
 {flowing}
 CROSS JOIN LATERAL (
         SELECT r.partition_key, r.global_sequence, r.generation, r.attempts, r.stream_id, r.topic, r.available_at, r.ctid AS place
           FROM {schema}.outbox_ready AS r
          WHERE r.partition_key = mine.partition_key
            AND r.global_sequence > mine.after
            AND r.global_sequence <= (SELECT CASE WHEN $9::boolean THEN current_setting('postrider.safe')::bigint ELSE $5 END)
          ORDER BY r.global_sequence
          LIMIT mine.most) AS o
 WHERE NOT ($6::boolean
            AND EXISTS (SELECT FROM {schema}.outbox_parked AS f
                         WHERE f.partition_key = mine.partition_key
                           AND f.replay_id IS NULL
                           AND (f.attempts > 0 OR f.dead_at IS NOT NULL)
                           AND NOT ($8::boolean AND f.dead_at IS NOT NULL)))
 LIMIT $4
