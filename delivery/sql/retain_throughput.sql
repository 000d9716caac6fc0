DELETE FROM {schema}.outbox_throughput
 WHERE (minute, partition_key) IN (SELECT minute, partition_key FROM {schema}.outbox_throughput
               WHERE minute < clock_timestamp() - $1::interval
               ORDER BY minute
               LIMIT $2
                 FOR UPDATE SKIP LOCKED)
