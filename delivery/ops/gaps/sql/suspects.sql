-- Which of the events $1 have, in one snapshot, neither a pointer nor a history row
-- that is younger than $3, and were not given up by an operator: of that the history
-- forgets, and the audit does not. Older history rows were read before. Each pointer
-- is looked up by itself, however many others there are.
WITH asked AS MATERIALIZED (SELECT s AS sequence FROM unnest($1::bigint[]) AS s),
     known AS MATERIALIZED (
       SELECT s.sequence
         FROM {schema}.outbox_deliveries AS d
        CROSS JOIN LATERAL unnest(
                coalesce(d.sequences, ARRAY(SELECT generate_series(d.first_sequence, d.last_sequence))),
                d.stream_sequences) WITH ORDINALITY AS s (sequence, stream_sequence, position)
        WHERE d.published_at >= $3
          AND d.first_sequence <= (SELECT max(sequence) FROM asked) AND d.last_sequence >= (SELECT min(sequence) FROM asked)
          AND (d.lost_after IS NULL
               OR coalesce(CASE WHEN d.stream_sequences IS NULL THEN d.first_stream_sequence + s.position - 1 ELSE s.stream_sequence END <= d.lost_after, true))
        UNION ALL
       SELECT u.sequence::bigint
         FROM {schema}.outbox_audit AS a
        CROSS JOIN LATERAL jsonb_array_elements_text(a.target -> 'sequences') AS u (sequence)
        WHERE a.action IN ('dead.skip', 'dead.discard', 'scheduled.cancel')
          AND u.sequence::bigint BETWEEN (SELECT min(sequence) FROM asked) AND (SELECT max(sequence) FROM asked))
SELECT e.sequence, e.stream_id, e.event_id, e.stream_version, coalesce({routing_key}, e.stream_id)
  FROM (SELECT a.sequence FROM asked AS a EXCEPT SELECT k.sequence FROM known AS k) AS left_over
  JOIN {events} AS e USING (sequence)
  LEFT JOIN LATERAL (
         SELECT true AS waits
           FROM {schema}.outbox AS o
          WHERE o.partition_key = ANY ($2::smallint[]) AND o.global_sequence = e.sequence
          LIMIT 1) AS pointer ON true
 WHERE NOT {audit_only}
   AND pointer.waits IS NULL
 ORDER BY e.sequence
