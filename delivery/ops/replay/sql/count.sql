-- Counts the selected events between $2 and $3. The left-out ones of replay $1
-- are not counted, nor, for a replay that is only thought of ($1 is NULL), what
-- waits in the outbox or was skipped or discarded.
SELECT count(*), coalesce(min(e.sequence), 0), coalesce(max(e.sequence), 0), min(e.recorded_at), max(e.recorded_at)
  FROM {events} AS e
 WHERE e.sequence > $2 AND e.sequence <= $3
   AND {match}
   AND {current}
   AND ($1::bigint IS NOT NULL
        OR e.sequence NOT IN (SELECT o.global_sequence FROM {schema}.outbox AS o
                               WHERE o.partition_key = ANY ($11::smallint[]) AND o.global_sequence > $2 AND o.global_sequence <= $3
                                 AND ($4::text IS NULL OR o.stream_id = $4) AND {held}
                               UNION ALL
                              SELECT {unwanted}))
   AND ($1::bigint IS NULL
        OR e.sequence NOT IN (SELECT x.sequence FROM {schema}.outbox_replay_sequences AS x
                               WHERE x.replay_id = $1 AND x.sequence > $2 AND x.sequence <= $3))
