-- What operators did to one message, the newest first, and what the message was
-- before. The index of the sequences is for bitmap scans.
WITH found AS MATERIALIZED (
       SELECT a.id, a.at, a.actor, a.action, a.reason, a.details
         FROM {schema}.outbox_audit AS a
        WHERE a.target -> 'sequences' @> to_jsonb($1::bigint))
SELECT f.id, f.at, f.actor, f.action, coalesce(f.reason, ''),
       coalesce((m.was ->> 'attempts')::int, 0), coalesce((m.was ->> 'generation')::int, 0), coalesce(m.was ->> 'last_error', '')
  FROM found AS f
  LEFT JOIN LATERAL (
         SELECT w.was
           FROM jsonb_array_elements(CASE jsonb_typeof(f.details -> 'messages') WHEN 'array' THEN f.details -> 'messages' END) AS w (was)
          WHERE w.was -> 'global_sequence' = to_jsonb($1::bigint)
          LIMIT 1) AS m ON true
 ORDER BY f.id DESC
 LIMIT $2
