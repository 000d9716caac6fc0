-- An event without its payload, which not every role may read.
SELECT e.stream_id, coalesce({topic}, ''), e.event_id, e.event_type, e.stream_version, e.recorded_at,
       coalesce(e.tenant_id, ''), {occurred_at}, {audit_only}, e.metadata
  FROM {events} AS e
 WHERE e.sequence = $1
