-- query: Reading
-- Begins what Rehydrate reads.
SELECT
-- include: planning
-- What was claimed from a server that was started at another time divides by zero: its sequences may be those of other events by now.
       , 1 / CASE WHEN pg_postmaster_start_time() <> @server::timestamptz THEN 0 ELSE 1 END

-- query: Rehydrate
-- The bounds name the parts of a partitioned table in which these lie; the array does not.
-- include: event
         WHERE e.sequence = ANY (@sequences::bigint[]) AND e.sequence BETWEEN @low::bigint AND @high::bigint
        OFFSET 0) AS s

-- fragment: event
-- The events of some sequences, in any order. A payload that is larger than asked
-- for is left out. OFFSET 0 has a payload that is no bytea
-- converted once.
SELECT s.sequence, s.event_id, s.stream_version, s.event_type, octet_length(s.payload)::bigint,
       CASE WHEN octet_length(s.payload) <= @payload::bigint THEN s.payload END,
       s.metadata ->> 'traceparent', s.metadata ->> 'tracestate', s.metadata -> 'headers',
       s.metadata ->> 'correlation_id', s.metadata ->> 'causation_id',
       s.tenant_id, s.audit_only, s.occurred_at, s.recorded_at
  FROM (SELECT e.sequence, e.event_id, e.stream_version, e.event_type::text, {metadata} AS metadata, e.tenant_id::text, e.recorded_at,
               {audit_only} AS audit_only, {occurred_at} AS occurred_at, {payload} AS payload
          FROM {events} AS e

-- query: LetGo
-- Has a connection let go of the event that it read last: its driver keeps, column by column, what it last read
-- there, and each value keeps the memory of its whole row. It is as wide as Rehydrate.
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL

-- query: EventTypes
-- The types of some events.
SELECT e.sequence, coalesce(e.event_type::text, '') FROM {events} AS e WHERE e.sequence = ANY (@sequences::bigint[])
