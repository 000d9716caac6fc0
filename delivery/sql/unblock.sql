-- For a new owner, whose policy may be another than its predecessor's: the rows
-- that its policy blocks by nothing. $3: dead rows block nothing; $4: nothing
-- blocks. Rows only become unblocked here; claims look at the order themselves.
UPDATE {schema}.outbox_parked AS p
   SET blocked = false
 WHERE p.partition_key = (SELECT l.partition_key
                            FROM {schema}.outbox_partitions AS l
                           WHERE l.partition_key = $5 AND l.lease_owner IS NOT DISTINCT FROM $1 AND l.lease_epoch = $2
                             FOR NO KEY UPDATE)
   AND p.blocked
   AND ($4::boolean
        OR NOT EXISTS (SELECT FROM {schema}.outbox_parked AS e
                        WHERE e.partition_key = p.partition_key
                          AND e.stream_id = p.stream_id
                          AND e.global_sequence < p.global_sequence
                          AND NOT ($3::boolean AND e.dead_at IS NOT NULL)))
