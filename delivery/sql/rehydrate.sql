SELECT e.sequence, e.event_id, e.stream_version, e.event_type,
       octet_length({payload})::bigint,
       CASE WHEN octet_length({payload}) <= $2 THEN {payload} END,
       e.metadata ->> 'traceparent', e.metadata ->> 'tracestate', e.metadata -> 'headers',
       e.tenant_id, {audit_only}, e.recorded_at
  FROM {events} AS e
 WHERE e.sequence = ANY ($1::bigint[])
 ORDER BY e.sequence
