-- Which of the events $1 have, in one snapshot, neither a pointer nor a history row,
-- and were not given up by an operator: of that the history forgets, and the audit
-- does not.
WITH asked AS MATERIALIZED (SELECT s AS sequence FROM unnest($1::bigint[]) AS s),
     known AS MATERIALIZED (
       SELECT DISTINCT s.sequence
         FROM {schema}.outbox_deliveries AS d
        CROSS JOIN LATERAL unnest(
                coalesce(d.sequences, ARRAY(SELECT generate_series(d.first_sequence, d.last_sequence))),
                d.stream_sequences) WITH ORDINALITY AS s (sequence, stream_sequence, position)
        WHERE d.first_sequence <= (SELECT max(sequence) FROM asked) AND d.last_sequence >= (SELECT min(sequence) FROM asked)
          AND s.sequence IN (SELECT sequence FROM asked)
          AND (d.lost_after IS NULL
               OR coalesce(CASE WHEN d.stream_sequences IS NULL THEN d.first_stream_sequence + s.position - 1 ELSE s.stream_sequence END <= d.lost_after, true)))
SELECT e.sequence, e.stream_id, e.event_id, e.stream_version, coalesce({routing_key}, e.stream_id)
  FROM asked JOIN {events} AS e USING (sequence)
 WHERE NOT {audit_only}
   AND e.sequence NOT IN (SELECT sequence FROM known)
   AND NOT EXISTS (SELECT FROM {schema}.outbox_audit AS u
                    WHERE u.target -> 'sequences' @> to_jsonb(e.sequence) AND u.action IN ('dead.skip', 'dead.discard'))
   AND NOT EXISTS (SELECT FROM {schema}.outbox AS o WHERE o.partition_key = ANY ($2::smallint[]) AND o.global_sequence = e.sequence)
 ORDER BY e.sequence
