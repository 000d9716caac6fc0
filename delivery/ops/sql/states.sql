-- The states of those of the sequences that are in the outbox.
SELECT o.global_sequence, {state}, o.partition_key
  FROM {schema}.outbox AS o
 WHERE o.partition_key = ANY ($1::smallint[]) AND o.global_sequence = ANY ($2::bigint[])
