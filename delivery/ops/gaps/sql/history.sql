-- query: HistoryEnd
-- The last batch of the page that History reads, and whether there is one.
SELECT max(p.id), count(*)
  FROM (SELECT h.id
          -- include: page
       ) AS p

-- query: History
-- A page of the history behind the batch @after: what was settled between @low and @high, and
-- where in the stream. What the stream lost afterwards was queued again.
SELECT d.id, d.partition_key, s.sequence,
       -- include: position
       AS stream_sequence,
       coalesce((d.generations ->> s.sequence::text)::int, 0)
  FROM (SELECT h.*
          -- include: page
       ) AS d
 -- include: messages
 WHERE s.sequence BETWEEN @low AND @high
   -- include: not_lost
 ORDER BY d.id

-- query: Deliveries
-- Everything the history says of @sequences, and whether they wait in the
-- outbox.
WITH asked AS MATERIALIZED (SELECT DISTINCT s AS sequence FROM unnest(@sequences::bigint[]) AS s)
SELECT a.sequence, e.stream_id, e.event_id, e.stream_version, coalesce({routing_key}, e.stream_id),
       EXISTS (SELECT FROM {schema}.outbox AS o WHERE o.partition_key = ANY (@partitions::smallint[]) AND o.global_sequence = a.sequence),
       coalesce(h.positions, '{}'), coalesce(h.generation, 0), coalesce(h.published_at, '-infinity')
  FROM asked AS a
  JOIN {events} AS e ON e.sequence = a.sequence
  LEFT JOIN (SELECT s.sequence,
                    array_agg(
                              -- include: position
                              ) AS positions,
                    max(coalesce((d.generations ->> s.sequence::text)::int, 0)) AS generation,
                    max(d.published_at) AS published_at
               FROM {schema}.outbox_deliveries AS d
              -- include: messages
              WHERE d.first_sequence <= (SELECT max(sequence) FROM asked) AND d.last_sequence >= (SELECT min(sequence) FROM asked)
                AND s.sequence IN (SELECT sequence FROM asked)
              GROUP BY s.sequence) AS h ON h.sequence = a.sequence
 ORDER BY a.sequence

-- fragment: page
          FROM {schema}.outbox_deliveries AS h
         WHERE h.id > @after AND h.first_sequence <= @high AND h.last_sequence >= @low
         ORDER BY h.id
         LIMIT @limit

-- fragment: messages
-- The messages s of the batch d.
 CROSS JOIN LATERAL unnest(
         coalesce(d.sequences, ARRAY(SELECT generate_series(d.first_sequence, d.last_sequence))),
         d.stream_sequences) WITH ORDINALITY AS s (sequence, stream_sequence, position)

-- fragment: position
-- Where the message s of the batch d lies in the stream.
       CASE WHEN d.stream_sequences IS NULL THEN d.first_stream_sequence + s.position - 1 ELSE s.stream_sequence END

-- fragment: not_lost
-- The stream did not lose it afterwards.
   AND (d.lost_after IS NULL
        OR coalesce(
           -- include: position
           <= d.lost_after, true))
