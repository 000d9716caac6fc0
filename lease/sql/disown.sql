-- What carries this worker's name although the worker knows nothing of it: the
-- answer to an acquisition was lost.
UPDATE {schema}.outbox_partitions
   SET lease_owner = NULL,
       lease_until = NULL,
       updated_at  = clock_timestamp()
 WHERE lease_owner = $1
RETURNING partition_key
