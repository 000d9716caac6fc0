-- What waits in the outbox when a replay is made is delivered without it, or, for
-- a shadow, is not published yet; what operators skipped or discarded must not be
-- published.
WITH waiting AS MATERIALIZED (
       SELECT o.global_sequence AS sequence
         FROM {schema}.outbox AS o
        WHERE o.global_sequence > $2 AND o.global_sequence <= $3
          AND ($4::text IS NULL OR o.stream_id = $4)
          AND {held}
        UNION
       SELECT {unwanted} AND u.sequence::bigint > $2 AND u.sequence::bigint <= $3)
INSERT INTO {schema}.outbox_replay_sequences (replay_id, sequence)
SELECT $1, e.sequence
  FROM waiting JOIN {events} AS e USING (sequence)
 WHERE {match}
