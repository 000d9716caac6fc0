-- Where every row of the outbox lies, and where its key puts it under the old and the
-- new count.
SELECT o.partition_key, o.global_sequence, o.parked,
       {schema}.outbox_hash_partition({schema}.outbox_xxhash64(convert_to(coalesce({routing_key}, o.stream_id), 'UTF8')), $1) AS before,
       {schema}.outbox_hash_partition({schema}.outbox_xxhash64(convert_to(coalesce({routing_key}, o.stream_id), 'UTF8')), $2) AS after
  FROM {schema}.outbox AS o
  LEFT JOIN {events} AS e ON e.sequence = o.global_sequence
