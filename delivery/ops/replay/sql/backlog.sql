-- How many rows workers could publish now, of new ones and of replayed ones, each
-- up to $1. What waits behind a failed or dead row is not theirs to publish.
SELECT (SELECT count(*) FROM (SELECT FROM {schema}.outbox AS o WHERE NOT o.parked LIMIT $1) AS ready)
     + (SELECT count(*)
          FROM (SELECT FROM {schema}.outbox AS o
                 WHERE o.parked AND o.replay_id IS NOT NULL AND o.dead_at IS NULL AND o.attempts = 0
                   AND NOT (o.blocked
                            AND EXISTS (SELECT FROM {schema}.outbox AS e
                                         WHERE e.parked AND e.partition_key = o.partition_key AND e.stream_id = o.stream_id
                                           AND e.global_sequence < o.global_sequence
                                           AND (e.dead_at IS NOT NULL OR e.attempts > 0)))
                 LIMIT $1) AS replayed)
