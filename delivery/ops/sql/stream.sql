-- The sequences of a stream, by its versions, of the $3 first ones at most, and
-- its parked rows with their partitions, also those whose event is not there.
(SELECT e.sequence, NULL::smallint AS partition_key FROM {events} AS e WHERE e.stream_id = $1 ORDER BY e.stream_version LIMIT $3)
 UNION ALL
(SELECT p.global_sequence, p.partition_key
   FROM {schema}.outbox AS p
  WHERE p.parked AND p.partition_key = ANY ($2::smallint[]) AND p.stream_id = $1
  LIMIT $3)
