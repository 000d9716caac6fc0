SELECT sequence, stream_id, stream_version, event_id, event_type, topic, coalesce(tenant_id, ''), payload, metadata,
       occurred_at, recorded_at, audit_only
  FROM {schema}.events
 WHERE stream_id = $1 AND stream_version >= $2
 ORDER BY stream_version LIMIT $3
