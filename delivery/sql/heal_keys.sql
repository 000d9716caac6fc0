-- Every partition that ever was, if their number ever changed.
SELECT k.partition_key
  FROM {schema}.outbox_settings AS s
 CROSS JOIN (SELECT partition_key FROM {schema}.outbox_partitions
              UNION
             SELECT partition_key FROM {schema}.outbox_former_partitions) AS k
 WHERE s.resized_at IS NOT NULL
 ORDER BY k.partition_key
