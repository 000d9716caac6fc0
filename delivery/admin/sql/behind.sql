-- How many rows of a stream wait behind one of them, counted up to $5, and the
-- first of these.
SELECT count(*) OVER (), w.global_sequence, w.state
  FROM (SELECT o.global_sequence, {state} AS state
          FROM {schema}.outbox AS o
         WHERE o.partition_key = $1 AND o.stream_id = $2 AND o.global_sequence > $3
         ORDER BY o.global_sequence
         LIMIT $5) AS w
 ORDER BY w.global_sequence
 LIMIT $4
