-- Rows for the partitions up to $1 that are missing. One that was there before goes
-- on where it ended: the stream knows its epoch, and what it had published.
WITH back AS (
       DELETE FROM {schema}.outbox_former_partitions
        WHERE partition_key < $1::int
    RETURNING partition_key, lease_epoch, fence_sequence, stream_sequence)
INSERT INTO {schema}.outbox_partitions (partition_key, lease_epoch, fence_sequence, stream_sequence)
SELECT n, coalesce(b.lease_epoch, 0), coalesce(b.fence_sequence, 0), coalesce(b.stream_sequence, 0)
  FROM generate_series(0, $1::int - 1) AS n
  LEFT JOIN back AS b ON b.partition_key = n
ON CONFLICT (partition_key) DO NOTHING
