-- query: Problem
SELECT {schema}.outbox_schema_problem(@json_schema::text::jsonb), @json_schema::text::jsonb::text

-- query: Put
INSERT INTO {schema}.outbox_types AS t (event_type, json_schema, checked, description)
VALUES (@type, @json_schema::text::jsonb, @checked, nullif(@description, ''))
ON CONFLICT (event_type) DO UPDATE
   SET json_schema = excluded.json_schema, checked = excluded.checked, description = excluded.description,
       updated_at = clock_timestamp()

-- query: Find
SELECT t.event_type, t.json_schema::text, t.checked, coalesce(t.description, ''), t.created_at, t.updated_at
  FROM {schema}.outbox_types AS t WHERE t.event_type = @type

-- query: List
SELECT t.event_type, t.json_schema::text, t.checked, coalesce(t.description, ''), t.created_at, t.updated_at
  FROM {schema}.outbox_types AS t ORDER BY t.event_type COLLATE "C"

-- query: Remove
DELETE FROM {schema}.outbox_types WHERE event_type = @type

-- query: Seen
-- What the newest events are. No index has topics and types.
SELECT n.topic, n.event_type, count(*), max(n.sequence)
  FROM (SELECT e.sequence, e.event_type::text, coalesce({topic}, 'default') AS topic, {audit_only} AS audit_only
          FROM {events} AS e ORDER BY e.sequence DESC LIMIT @newest) AS n
 WHERE NOT n.audit_only
 GROUP BY n.topic, n.event_type
 ORDER BY n.topic COLLATE "C", n.event_type COLLATE "C"
