-- query: Read
-- Times are those that Go and JSON hold. The last column is for how many seconds the event has been recorded, by this server's clock, up to a century.
SELECT sequence, stream_id, stream_version, event_id, event_type, topic, coalesce(tenant_id, ''), payload, metadata,
       least(greatest(occurred_at, '0001-01-01 00:00:00.000001Z'::timestamptz), '9999-12-31 23:59:59.999999Z'::timestamptz),
       least(greatest(recorded_at, '0001-01-01 00:00:00.000001Z'::timestamptz), '9999-12-31 23:59:59.999999Z'::timestamptz), audit_only,
       extract(epoch FROM greatest(pg_catalog.clock_timestamp() - greatest(least(recorded_at, pg_catalog.clock_timestamp()),
                                   pg_catalog.clock_timestamp() - interval '100 years'), interval '0'))::float8
  FROM {schema}.events
 WHERE stream_id = @stream AND stream_version >= @from
 ORDER BY stream_version LIMIT @limit

-- query: Hidden
SELECT pg_catalog.row_security_active('{schema}.events')

-- query: Dropped
-- Streams all of whose events were dropped with their parts, and their last versions.
SELECT h.stream_id, h.stream_version
  FROM {schema}.outbox_stream_heads AS h
 WHERE NOT EXISTS (SELECT FROM {schema}.events AS e WHERE e.stream_id = h.stream_id)

-- query: DroppedTo
-- Returns the last version of a stream that was dropped whole, else 0.
SELECT coalesce(pg_catalog.max(h.stream_version), 0) FROM {schema}.outbox_stream_heads AS h
 WHERE h.stream_id = @stream AND NOT EXISTS (SELECT FROM {schema}.events AS e WHERE e.stream_id = @stream)

-- query: Heads
-- Returns every stream with its first and last version and the last one to be applied: three looks into the index a stream,
-- however many events there are. Audit-only events at a stream's end are passed one by one.
WITH RECURSIVE streams (stream_id) AS (
    (SELECT stream_id FROM {schema}.events ORDER BY stream_id LIMIT 1)
    UNION ALL
    SELECT (SELECT e.stream_id FROM {schema}.events AS e WHERE e.stream_id > s.stream_id ORDER BY e.stream_id LIMIT 1)
      FROM streams AS s WHERE s.stream_id IS NOT NULL)
SELECT s.stream_id, first.stream_version, last.stream_version, last.event_id, coalesce(wanted.stream_version, 0),
       -- An event recorded later than now was so before the clock stepped back.
       coalesce(wanted.recorded_at NOT BETWEEN pg_catalog.clock_timestamp() - @grace::interval AND pg_catalog.clock_timestamp(), false)
  FROM streams AS s
 CROSS JOIN LATERAL (SELECT e.stream_version FROM {schema}.events AS e
                      WHERE e.stream_id = s.stream_id ORDER BY e.stream_version LIMIT 1) AS first
 CROSS JOIN LATERAL (SELECT e.stream_version, e.event_id FROM {schema}.events AS e
                      WHERE e.stream_id = s.stream_id ORDER BY e.stream_version DESC LIMIT 1) AS last
  LEFT JOIN LATERAL (SELECT e.stream_version, e.recorded_at FROM {schema}.events AS e
                      WHERE e.stream_id = s.stream_id AND NOT e.audit_only ORDER BY e.stream_version DESC LIMIT 1) AS wanted ON true
 WHERE s.stream_id IS NOT NULL
 ORDER BY s.stream_id COLLATE "C"
