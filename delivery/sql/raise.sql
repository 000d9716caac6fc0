-- The stream knows a higher epoch than this lease's: the row was made anew, or the
-- database is older than the stream. The next owner begins above it. A newer owner's
-- row is left alone.
UPDATE {schema}.outbox_partitions
   SET lease_epoch = $4,
       updated_at  = clock_timestamp()
 WHERE partition_key = $3 AND lease_owner IS NOT DISTINCT FROM $1 AND lease_epoch = $2
   AND lease_epoch < $4
