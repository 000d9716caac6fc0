-- query: Patience
SELECT set_config('lock_timeout', @wait::text, true), set_config('statement_timeout', '0', true),
       set_config('idle_in_transaction_session_timeout', '10s', true), CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL THEN set_config('transaction_timeout', '0', true) END

-- query: State
-- Whether events are in parts, and if not what is in the way. The function wants the table to be there.
SELECT s.events_in_parts, s.events_relation,
       CASE WHEN s.events_in_parts OR s.events_relation <> 'events' THEN '' ELSE coalesce({schema}.outbox_events_hindrance(), '') END
  FROM {schema}.outbox_settings AS s

-- query: Bound
SELECT {schema}.outbox_events_bound()

-- query: Validate
ALTER TABLE {schema}.events VALIDATE CONSTRAINT events_bound

-- query: Split
SELECT {schema}.outbox_events_split()

-- query: Begin
SELECT {schema}.outbox_events_begin()

-- query: Drop
SELECT {schema}.outbox_events_drop(@part::bigint)

-- query: Analyze
-- Nothing does this for the table as a whole.
ANALYZE {schema}.events

-- query: Parts
-- The parts in their order: the estimated number of events, what they take, and when their first and last ones were recorded.
SELECT n.part, n.name, greatest(n.reltuples, 0)::bigint, pg_total_relation_size(n.oid), f.sequence, f.recorded_at, l.sequence, l.recorded_at
  FROM (SELECT c.oid, c.relname::text AS name, c.reltuples, substring(c.relname FROM 8)::bigint AS part
          FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
         WHERE i.inhparent = '{schema}.events'::regclass) AS n
  LEFT JOIN LATERAL (SELECT e.sequence, e.recorded_at FROM {schema}.events AS e
                      WHERE e.sequence < (n.part + 1) * 1000000000000 AND (n.part = 0 OR e.sequence >= n.part * 1000000000000)
                      ORDER BY e.sequence LIMIT 1) AS f ON true
  LEFT JOIN LATERAL (SELECT e.sequence, e.recorded_at FROM {schema}.events AS e
                      WHERE e.sequence < (n.part + 1) * 1000000000000 AND (n.part = 0 OR e.sequence >= n.part * 1000000000000)
                      ORDER BY e.sequence DESC LIMIT 1) AS l ON true
 ORDER BY n.part

-- query: Events
-- A part's events, in their order.
SELECT e.sequence, e.event_id, e.stream_id, e.stream_version, e.event_type, e.topic, coalesce(e.tenant_id, ''), coalesce(e.routing_key, ''),
       e.metadata, e.audit_only, e.occurred_at, e.recorded_at, e.payload
  FROM {schema}.events AS e
 WHERE e.sequence < (@part::bigint + 1) * 1000000000000 AND (@part = 0 OR e.sequence >= @part * 1000000000000)
 ORDER BY e.sequence

-- query: Holders
-- Who holds a lock on events, or on a part of it, that a change waits for. A prepared transaction has no process; a vacuum
-- that the server runs by itself has no name.
SELECT coalesce(string_agg(DISTINCT CASE WHEN l.pid IS NULL THEN 'a prepared transaction (pg_prepared_xacts)'
                                         ELSE format('pid %s (%s, %s s)', l.pid,
                                                     coalesce(nullif(a.application_name, ''), nullif(a.backend_type, 'client backend'), 'unnamed'),
                                                     greatest(extract(epoch FROM clock_timestamp() - a.xact_start)::int, 0)) END, ', '),
                'nobody any more')
  FROM pg_locks AS l
  LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
 WHERE l.locktype = 'relation' AND l.granted
   AND l.relation IN (SELECT '{schema}.events'::regclass UNION ALL SELECT i.inhrelid FROM pg_inherits AS i WHERE i.inhparent = '{schema}.events'::regclass)
   AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
   AND (@all::boolean OR l.mode = 'RowExclusiveLock') AND l.pid IS DISTINCT FROM pg_backend_pid()
