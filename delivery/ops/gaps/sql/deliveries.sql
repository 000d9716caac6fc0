-- Everything the history says of the sequences $1, and whether they wait in the
-- outbox.
WITH asked AS MATERIALIZED (SELECT DISTINCT s AS sequence FROM unnest($1::bigint[]) AS s)
SELECT a.sequence, e.stream_id, e.event_id, e.stream_version, coalesce({routing_key}, e.stream_id),
       EXISTS (SELECT FROM {schema}.outbox AS o WHERE o.partition_key = ANY ($2::smallint[]) AND o.global_sequence = a.sequence),
       coalesce(h.positions, '{}'), coalesce(h.generation, 0), coalesce(h.published_at, '-infinity')
  FROM asked AS a
  JOIN {events} AS e ON e.sequence = a.sequence
  LEFT JOIN (SELECT s.sequence,
                    array_agg(CASE WHEN d.stream_sequences IS NULL THEN d.first_stream_sequence + s.position - 1 ELSE s.stream_sequence END)
                      AS positions,
                    max(coalesce((d.generations ->> s.sequence::text)::int, 0)) AS generation,
                    max(d.published_at) AS published_at
               FROM {schema}.outbox_deliveries AS d
              CROSS JOIN LATERAL unnest(
                      coalesce(d.sequences, ARRAY(SELECT generate_series(d.first_sequence, d.last_sequence))),
                      d.stream_sequences) WITH ORDINALITY AS s (sequence, stream_sequence, position)
              WHERE d.first_sequence <= (SELECT max(sequence) FROM asked) AND d.last_sequence >= (SELECT min(sequence) FROM asked)
                AND s.sequence IN (SELECT sequence FROM asked)
              GROUP BY s.sequence) AS h ON h.sequence = a.sequence
 ORDER BY a.sequence
