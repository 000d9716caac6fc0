-- What the history tells about the named sequences, none of which was published
-- before its time in $3; the latest delivery of each last. Columns as in
-- deliveries.sql.
SELECT s.sequence, d.partition_key, d.lease_epoch, d.published_at,
       CASE WHEN d.stream_sequences IS NULL THEN d.first_stream_sequence + s.position - 1 ELSE s.stream_sequence END,
       coalesce((d.attempts ->> s.sequence::text)::int, 0),
       coalesce((d.generations ->> s.sequence::text)::int, 0),
       d.discarded IS NOT NULL AND s.sequence = ANY (d.discarded),
       d.lost_after
  FROM unnest($2::bigint[], $3::timestamptz[]) AS w (sequence, since)
 CROSS JOIN LATERAL (
         SELECT d.*
           FROM {schema}.outbox_deliveries AS d
          WHERE d.partition_key = ANY ($1::smallint[])
            AND d.first_sequence <= w.sequence AND d.last_sequence >= w.sequence
            AND d.published_at >= w.since
            AND (d.sequences IS NULL OR w.sequence = ANY (d.sequences))
         OFFSET 0) AS d
 CROSS JOIN LATERAL (
         SELECT a.sequence, a.stream_sequence, a.position
           FROM unnest(coalesce(d.sequences, ARRAY(SELECT generate_series(d.first_sequence, d.last_sequence))), d.stream_sequences)
                WITH ORDINALITY AS a (sequence, stream_sequence, position)
          WHERE a.sequence = w.sequence) AS s
 ORDER BY s.sequence, d.id
