-- How many selected events wait in the outbox.
SELECT count(*)
  FROM (SELECT DISTINCT o.global_sequence AS sequence
          FROM {schema}.outbox AS o
         WHERE o.global_sequence > $2 AND o.global_sequence <= $3
           AND ($4::text IS NULL OR o.stream_id = $4)
           AND {held}) AS waiting
  JOIN {events} AS e USING (sequence)
 WHERE $1::bigint IS NULL AND {match}
