-- Events between $1 and $2 that are to be published and do not wait in the outbox.
SELECT e.sequence
  FROM {events} AS e
 WHERE e.sequence > $1 AND e.sequence <= $2
   AND NOT {audit_only}
   AND ($3::text IS NULL OR e.stream_id = $3)
   AND ($4::timestamptz IS NULL OR e.recorded_at >= $4)
   AND e.sequence NOT IN (SELECT o.global_sequence FROM {schema}.outbox AS o
                           WHERE o.partition_key = ANY ($5::smallint[]) AND o.global_sequence > $1 AND o.global_sequence <= $2
                              AND ($3::text IS NULL OR o.stream_id = $3))
