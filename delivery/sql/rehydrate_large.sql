-- The events of the sequences asked for, ascending, as far as their payloads fit into
-- $3 bytes together. The first one that does not fit comes without its payload and
-- is the last. A payload above $2 never comes; the first row always fits.
SELECT s.sequence, s.event_id, s.stream_version, s.event_type, s.size::bigint,
       s.total <= $3 OR s.total = s.counted AS fits,
       CASE WHEN s.size <= $2 AND (s.total <= $3 OR s.total = s.counted) THEN s.payload END,
       s.metadata ->> 'traceparent', s.metadata ->> 'tracestate', s.metadata -> 'headers',
       s.tenant_id, s.audit_only, s.occurred_at, s.recorded_at
  FROM (SELECT w.*, sum(w.counted) OVER (ORDER BY w.sequence) AS total, row_number() OVER (ORDER BY w.sequence) AS nth
          FROM (SELECT e.sequence, e.event_id, e.stream_version, e.event_type, e.metadata, e.tenant_id, e.recorded_at,
                       {audit_only} AS audit_only, {occurred_at} AS occurred_at, {payload} AS payload, octet_length({payload}) AS size,
                       least(octet_length({payload}), $2::int) AS counted
                  FROM {events} AS e
                 WHERE e.sequence = ANY ($1::bigint[])) AS w) AS s
 WHERE s.total - s.counted <= $3 OR s.nth = 2
 ORDER BY s.sequence
