-- Gives every row of the outbox its partition under the new count. A row that is
-- not where its key puts it under the old count was placed by a partitioner of
-- the producer's own, and comes back instead.
WITH placed AS (
       SELECT o.partition_key, o.global_sequence, o.parked,
              {schema}.outbox_hash_partition({schema}.outbox_xxhash64(convert_to(coalesce(e.routing_key, o.stream_id), 'UTF8')), $1) AS before,
              {schema}.outbox_hash_partition({schema}.outbox_xxhash64(convert_to(coalesce(e.routing_key, o.stream_id), 'UTF8')), $2) AS after
         FROM {schema}.outbox AS o
         LEFT JOIN {schema}.events AS e ON e.sequence = o.global_sequence),
     foreign_rows AS (
       SELECT count(*) AS n FROM placed WHERE before <> partition_key),
     moved AS (
       UPDATE {schema}.outbox AS o
          SET partition_key = p.after
         FROM placed AS p, foreign_rows AS f
        WHERE f.n = 0 AND p.after <> p.partition_key
          AND o.partition_key = p.partition_key AND o.global_sequence = p.global_sequence AND o.parked = p.parked
    RETURNING 1)
SELECT (SELECT n FROM foreign_rows), (SELECT count(*) FROM moved)
