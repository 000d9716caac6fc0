-- The lowest multiple of 100 above every generation that anything has.
SELECT 100 * (1 + greatest(
         coalesce((SELECT max(r.generation) FROM {schema}.outbox_replays AS r), 0),
         coalesce((SELECT max(o.generation) FROM {schema}.outbox AS o WHERE o.generation > 0), 0),
         coalesce((SELECT max(g.value::int)
                     FROM {schema}.outbox_deliveries AS d
                    CROSS JOIN LATERAL jsonb_each_text(d.generations) AS g (key, value)
                    WHERE d.generations IS NOT NULL), 0)) / 100)
