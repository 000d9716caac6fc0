-- The sequences of a stream, by its versions, of the $3 first ones at most; also
-- those of parked rows whose event is not there.
(SELECT e.sequence FROM {events} AS e WHERE e.stream_id = $1 ORDER BY e.stream_version LIMIT $3)
 UNION
(SELECT p.global_sequence
   FROM {schema}.outbox AS p
  WHERE p.parked AND p.partition_key = ANY ($2::smallint[]) AND p.stream_id = $1
  LIMIT $3)
