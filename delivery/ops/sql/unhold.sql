-- Held rows wait for what they waited for.
UPDATE {schema}.outbox AS o
   SET available_at = s.available_at
  FROM unnest($1::smallint[], $2::bigint[], $3::timestamptz[]) AS s (partition_key, sequence, available_at)
 WHERE o.parked AND o.partition_key = s.partition_key AND o.global_sequence = s.sequence AND o.available_at = 'infinity'
