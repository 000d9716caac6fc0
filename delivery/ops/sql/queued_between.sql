-- Which sequences of a range are in the outbox.
SELECT o.global_sequence
  FROM {schema}.outbox AS o
 WHERE o.partition_key = ANY ($1::smallint[]) AND o.global_sequence BETWEEN $2 AND $3
