-- What the history tells about sequences between $2 and $3, of these about $5
-- alone if given, the latest delivery of each last. Nothing was published before
-- $4; this and the partitions give the planner two ways in.
SELECT s.sequence, d.partition_key, d.lease_epoch, d.published_at,
       CASE WHEN d.stream_sequences IS NULL THEN d.first_stream_sequence + s.position - 1 ELSE s.stream_sequence END,
       coalesce((d.attempts ->> s.sequence::text)::int, 0),
       coalesce((d.generations ->> s.sequence::text)::int, 0),
       d.discarded IS NOT NULL AND s.sequence = ANY (d.discarded),
       d.lost_after
  FROM {schema}.outbox_deliveries AS d
 CROSS JOIN LATERAL unnest(
         coalesce(d.sequences, ARRAY(SELECT generate_series(d.first_sequence, d.last_sequence))),
         d.stream_sequences) WITH ORDINALITY AS s (sequence, stream_sequence, position)
 WHERE d.partition_key = ANY ($1::smallint[])
   AND d.first_sequence <= $3 AND d.last_sequence >= $2
   AND d.published_at >= $4
   AND ($5::bigint[] IS NULL OR CASE WHEN d.sequences IS NOT NULL THEN d.sequences && $5
                                     ELSE EXISTS (SELECT FROM unnest($5) AS w (sequence)
                                                   WHERE w.sequence BETWEEN d.first_sequence AND d.last_sequence) END)
   AND s.sequence BETWEEN $2 AND $3
   AND ($5 IS NULL OR s.sequence = ANY ($5))
 ORDER BY s.sequence, d.id
