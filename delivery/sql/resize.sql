-- Gives every row of the outbox its partition under the new count. A row that is
-- not where its key puts it under the old count was placed by a partitioner of
-- the producer's own, and comes back instead.
WITH placed AS (
       {placed}),
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
