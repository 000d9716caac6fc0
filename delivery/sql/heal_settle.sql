-- What was healed of partitions that are no more is no loss to the next who looks.
UPDATE {schema}.outbox_former_partitions AS f
   SET fence_sequence  = least(f.fence_sequence, k.kept),
       stream_sequence = least(f.stream_sequence, k.kept)
  FROM unnest($4::smallint[], $5::bigint[]) AS k (partition_key, kept)
 WHERE f.partition_key = k.partition_key
   AND EXISTS (SELECT FROM {schema}.outbox_partitions AS p
                WHERE p.partition_key = $3 AND p.lease_owner IS NOT DISTINCT FROM $1 AND p.lease_epoch = $2)
