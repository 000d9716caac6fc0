-- Notes, durably and before the row is touched, which one a careful owner works
-- on.
UPDATE {schema}.outbox_partitions
   SET suspect    = $4,
       suspected  = CASE WHEN suspect = $4 THEN suspected ELSE 0 END,
       updated_at = clock_timestamp()
 WHERE partition_key = $3 AND lease_owner IS NOT DISTINCT FROM $1 AND lease_epoch = $2
