UPDATE {schema}.outbox_partitions
   SET paused_at  = CASE WHEN $2::boolean THEN clock_timestamp() END,
       updated_at = clock_timestamp()
 WHERE partition_key = ANY ($1::smallint[])
