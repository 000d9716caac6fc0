-- How every mark begins: the lease rows of the partitions that are still this
-- worker's are locked in one order, one by one by their keys, compared, and carry
-- how far they are.
WITH mine AS (
       SELECT m.partition_key, m.epoch, m.delivered, m.fence, m.stream
         FROM unnest($2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
                AS m (partition_key, epoch, delivered, fence, stream)
        ORDER BY m.partition_key),
     locked AS (
       SELECT mine.*
         FROM mine
        CROSS JOIN LATERAL (
                SELECT
                  FROM {schema}.outbox_partitions AS f
                 WHERE f.partition_key = mine.partition_key
                   AND f.lease_owner IS NOT DISTINCT FROM $1 AND f.lease_epoch = mine.epoch
                   FOR NO KEY UPDATE) AS own),
     held AS (
       UPDATE {schema}.outbox_partitions AS p
          SET delivered       = greatest(p.delivered, locked.delivered),
              fence_sequence  = greatest(p.fence_sequence, locked.fence),
              stream_sequence = greatest(p.stream_sequence, locked.stream),
              crashes         = 0,
              suspect         = NULL,
              suspected       = 0,
              updated_at      = clock_timestamp()
         FROM locked
        WHERE p.partition_key = locked.partition_key
          AND p.lease_owner IS NOT DISTINCT FROM $1 AND p.lease_epoch = locked.epoch
    RETURNING p.partition_key, p.lease_epoch)
