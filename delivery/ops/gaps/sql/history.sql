-- A page of the history behind the batch $1: what was settled between $2 and $3, and
-- where in the stream. What the stream lost afterwards was queued again.
SELECT d.id, d.partition_key, s.sequence,
       CASE WHEN d.stream_sequences IS NULL THEN d.first_stream_sequence + s.position - 1 ELSE s.stream_sequence END AS stream_sequence,
       coalesce((d.generations ->> s.sequence::text)::int, 0)
  FROM (SELECT h.*
          FROM {schema}.outbox_deliveries AS h
         WHERE h.id > $1 AND h.first_sequence <= $3 AND h.last_sequence >= $2
         ORDER BY h.id
         LIMIT $4) AS d
 CROSS JOIN LATERAL unnest(
         coalesce(d.sequences, ARRAY(SELECT generate_series(d.first_sequence, d.last_sequence))),
         d.stream_sequences) WITH ORDINALITY AS s (sequence, stream_sequence, position)
 WHERE s.sequence BETWEEN $2 AND $3
   AND (d.lost_after IS NULL
        OR coalesce(CASE WHEN d.stream_sequences IS NULL THEN d.first_stream_sequence + s.position - 1 ELSE s.stream_sequence END <= d.lost_after, true))
 ORDER BY d.id
