-- The states of those of the sequences that are in the outbox. Every partition is
-- asked for every one of them, by an index that has them in order: the equality is
-- written as two bounds, so that no other index will do.
SELECT o.global_sequence, {state}, o.partition_key
  FROM unnest($1::smallint[]) AS p (partition_key)
 CROSS JOIN unnest($2::bigint[]) AS w (sequence)
 CROSS JOIN LATERAL (
         SELECT r.*
           FROM {schema}.outbox AS r
          WHERE r.partition_key = p.partition_key AND r.global_sequence >= w.sequence AND r.global_sequence <= w.sequence
          ORDER BY r.global_sequence
          LIMIT 1) AS o
