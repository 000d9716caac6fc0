-- query: Near
-- The sequences of the next @most events and of those before, and of as many parked rows.
(SELECT e.sequence FROM {events} AS e WHERE e.sequence > @after ORDER BY e.sequence LIMIT @most)
 UNION
(SELECT e.sequence FROM {events} AS e WHERE e.sequence <= @after ORDER BY e.sequence DESC LIMIT @most)
 UNION
(SELECT o.global_sequence FROM {schema}.outbox AS o WHERE o.parked LIMIT @most)

-- query: Try
-- Reads all columns of those events that lists show.
SELECT count(e.stream_id), count({topic}), count(e.event_id), count(e.event_type::text), count(e.stream_version), count(e.recorded_at),
       count(e.tenant_id::text), count({occurred_at}), count({audit_only}), count(e.metadata)
  FROM {events} AS e
 WHERE e.sequence = ANY (@sequences::bigint[])

-- query: Find
SELECT e.sequence FROM {events} AS e WHERE e.event_id = @id

-- query: EventsLike
-- Events whose id lies between two, by the index of the ids.
SELECT e.event_id FROM {events} AS e WHERE e.event_id BETWEEN @first AND @last ORDER BY e.event_id LIMIT @limit

-- query: Event
-- An event without its payload, which not every role may read.
SELECT e.stream_id, coalesce({topic}, ''), e.event_id, e.event_type::text, e.stream_version, e.recorded_at,
       coalesce(e.tenant_id::text, ''), {occurred_at}, {audit_only}, e.metadata
  FROM {events} AS e
 WHERE e.sequence = @sequence

-- query: Payload
SELECT {payload} FROM {events} AS e WHERE e.sequence = @sequence

-- query: Pointer
-- The row of one message in the outbox, found as in Among.
SELECT o.partition_key, o.stream_id, o.topic,
       -- include: state
       , o.attempts, o.generation,
       CASE WHEN isfinite(o.available_at) THEN o.available_at END, o.dead_at, coalesce(o.last_error, ''), o.failures
  FROM unnest(@in::smallint[]) AS p (partition_key)
 CROSS JOIN LATERAL (
         SELECT r.*
           FROM {schema}.outbox AS r
          WHERE r.partition_key = p.partition_key AND r.global_sequence >= @sequence AND r.global_sequence <= @sequence
          ORDER BY r.global_sequence
          LIMIT 1) AS o

-- query: Beside
-- The rows of a stream in one partition before and behind one of them: of the
-- parked ones the first before it and @behind behind it, of those that can be published
-- the named ones, or without names those among the next @rows rows on either side.
SELECT o.global_sequence,
       -- include: state
  FROM ((SELECT p.* FROM {schema}.outbox AS p
          WHERE p.parked AND p.partition_key = @partition AND p.stream_id = @stream AND p.global_sequence < @sequence
          ORDER BY p.global_sequence
          LIMIT 1)
         UNION ALL
        (SELECT p.* FROM {schema}.outbox AS p
          WHERE p.parked AND p.partition_key = @partition AND p.stream_id = @stream AND p.global_sequence > @sequence
          ORDER BY p.global_sequence
          LIMIT @behind)
         UNION ALL
        (SELECT r.*
           FROM unnest(@named::bigint[]) AS w (sequence)
          CROSS JOIN LATERAL (
                  SELECT n.*
                    FROM {schema}.outbox AS n
                   WHERE NOT n.parked AND n.partition_key = @partition AND n.global_sequence = w.sequence
                   LIMIT 1) AS r
          WHERE r.global_sequence <> @sequence AND r.stream_id = @stream)
         UNION ALL
        (SELECT r.*
           FROM (SELECT n.* FROM {schema}.outbox AS n
                  WHERE NOT n.parked AND n.partition_key = @partition AND n.global_sequence < @sequence
                  ORDER BY n.global_sequence DESC
                  LIMIT @rows) AS r
          WHERE @named::bigint[] IS NULL AND r.stream_id = @stream)
         UNION ALL
        (SELECT r.*
           FROM (SELECT n.* FROM {schema}.outbox AS n
                  WHERE NOT n.parked AND n.partition_key = @partition AND n.global_sequence > @sequence
                  ORDER BY n.global_sequence
                  LIMIT @rows) AS r
          WHERE @named IS NULL AND r.stream_id = @stream)) AS o
 ORDER BY o.global_sequence

-- query: States
-- The states of those of the sequences that are in the outbox.
SELECT o.global_sequence,
       -- include: state
       , o.partition_key
  FROM {schema}.outbox AS o
 WHERE o.partition_key = ANY (@in::smallint[]) AND o.global_sequence = ANY (@sequences::bigint[])

-- query: MayReadAudit
-- Whether this role may read the audit; what follows may use its bitmap index.
SELECT has_table_privilege('{schema}.outbox_audit', 'SELECT') AND set_config('enable_bitmapscan', 'on', true) IS NOT NULL

-- query: Actions
-- What operators did to one message, the newest first, and what the message was
-- before. The index of the sequences is for bitmap scans.
WITH found AS MATERIALIZED (
       SELECT a.id, a.at, a.actor, a.action, a.reason, a.details
         FROM {schema}.outbox_audit AS a
        WHERE a.target -> 'sequences' @> to_jsonb(@sequence::bigint))
SELECT f.id, f.at, f.actor, f.action, coalesce(f.reason, ''),
       coalesce((m.was ->> 'attempts')::int, 0), coalesce((m.was ->> 'generation')::int, 0), coalesce(m.was ->> 'last_error', '')
  FROM found AS f
  LEFT JOIN LATERAL (
         SELECT w.was
           FROM jsonb_array_elements(CASE jsonb_typeof(f.details -> 'messages') WHEN 'array' THEN f.details -> 'messages' END) AS w (was)
          WHERE w.was -> 'global_sequence' = to_jsonb(@sequence::bigint)
          LIMIT 1) AS m ON true
 ORDER BY f.id DESC
 LIMIT @limit
