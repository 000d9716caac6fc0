-- A claim (claim_ready.sql) with the events of what it found (rehydrate.sql, row by
-- row), for when that is little. The setting tells position.sql that
-- anything was found.
SELECT c.*, coalesce(e.sequence, 0), e.event_id, e.stream_version, e.event_type, e.size, e.payload,
       e.traceparent, e.tracestate, e.headers, e.correlation_id, e.causation_id, e.tenant_id, coalesce(e.audit_only, false), e.occurred_at, e.recorded_at,
       set_config('postrider.found', 'true', true)
  FROM ({claim}) AS c
  LEFT JOIN LATERAL ({event}) AS e (sequence, event_id, stream_version, event_type, size, payload, traceparent, tracestate,
                                    headers, correlation_id, causation_id, tenant_id, audit_only, occurred_at, recorded_at) ON c.due AND NOT c.blocked
