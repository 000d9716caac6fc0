-- The lowest multiple of 100 above every generation that anything has. A replay that was
-- cancelled before it queued anything has none, nor has one that was refused.
SELECT 100 * (1 + greatest(
         coalesce((SELECT max(r.generation) FROM {schema}.outbox_replays AS r
                    WHERE NOT (r.state = 'cancelled' AND (r.destination = 'live' AND r.replayed = 0 OR coalesce(r.expected <> r.selected, false)))), 0),
         coalesce((SELECT max(o.generation) FROM {schema}.outbox AS o WHERE o.generation > 0), 0),
         coalesce((SELECT max(g.value::int)
                     FROM {schema}.outbox_deliveries AS d
                    CROSS JOIN LATERAL jsonb_each_text(d.generations) AS g (key, value)
                    WHERE d.generations IS NOT NULL), 0)) / 100)
