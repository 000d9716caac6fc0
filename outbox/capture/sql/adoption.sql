-- query: Unique
-- The columns that an index keeps unique, at once and in all rows.
SELECT a.attname::text
  FROM pg_index AS i
  JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
 WHERE i.indrelid = @table AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indnkeyatts = 1 AND i.indpred IS NULL AND a.attnotnull

-- query: MayAdopt
-- The table owner's right to append its rows, and this session's to append waiting ones, and not twice.
SELECT has_schema_privilege(c.relowner, o.oid, 'USAGE') AND has_function_privilege(c.relowner, append.oid, 'EXECUTE'),
       has_function_privilege(event.oid, 'EXECUTE') AND has_function_privilege(batch.oid, 'EXECUTE')
  FROM pg_class AS c
  JOIN pg_namespace AS o ON o.nspname = @schema
  JOIN pg_class AS e ON e.relnamespace = o.oid AND e.relname = 'events'
  JOIN pg_proc AS append ON append.pronamespace = o.oid AND append.proname = 'outbox_append_adopted' AND append.proowner = e.relowner
  JOIN pg_proc AS event ON event.pronamespace = o.oid AND event.proname = 'outbox_adopted_event' AND event.proowner = e.relowner
  JOIN pg_proc AS batch ON batch.pronamespace = o.oid AND batch.proname = 'outbox_append_batch' AND batch.proowner = e.relowner
 WHERE c.oid = @table

-- query: Own
-- True where this session is the table's owner, and not a role that took it.
SELECT session_user = current_user AND pg_get_userbyid(c.relowner) = session_user FROM pg_class AS c WHERE c.oid = @table

-- query: Fit
-- Makes events of the rows.
SELECT f.event_stream, f.event_type, f.event_topic, f.event_metadata::text, f.event_tenant, f.event_key, f.event_occurred, f.id, f.next_id,
       f.told, f.changed, f.shared
  FROM unnest(@rows::text[], @own::uuid[], @streams::text[], @types::text[], @topics::text[], @payloads::bytea[], @metadata::text[],
              @tenants::text[], @keys::text[], @occurred::timestamptz[])
       WITH ORDINALITY AS u (row_key, own_id, stream, type, topic, payload, metadata, tenant, key, occurred, position)
 CROSS JOIN LATERAL {schema}.outbox_adopted_event(@source::text, u.row_key, u.own_id, u.stream, u.type, u.topic, u.payload, u.metadata,
                        @headers::boolean, u.tenant, u.key, u.occurred) AS f
 ORDER BY u.position

-- query: Versions
-- The versions of streams, with whether events of theirs were dropped. With given versions a batch of more than 64
-- events locks no stream: the lock table is small.
SELECT s.stream, coalesce(kept.last, head.stream_version, 0), coalesce(kept.first > 1, head.stream_version IS NOT NULL)
  FROM unnest(@streams::text[]) AS s (stream)
 CROSS JOIN LATERAL (SELECT min(e.stream_version) AS first, max(e.stream_version) AS last
                       FROM {schema}.events AS e WHERE e.stream_id = s.stream) AS kept
  LEFT JOIN {schema}.outbox_stream_heads AS head ON head.stream_id = s.stream

-- query: MayBackfill
-- True where this session is the table's owner, and not a role that took it; may append batches; and an index keeps keys unique.
SELECT session_user = current_user AND pg_get_userbyid(c.relowner) = session_user,
       has_function_privilege(b.oid, 'EXECUTE'),
       EXISTS (SELECT FROM pg_index AS i
                WHERE i.indrelid = c.oid AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
                  AND (i.indkey::int[])[0:i.indnkeyatts - 1] <@ @numbers::text::int[])
  FROM pg_class AS c
  JOIN pg_namespace AS o ON o.nspname = @schema
  JOIN pg_class AS e ON e.relnamespace = o.oid AND e.relname = 'events'
  JOIN pg_proc AS b ON b.pronamespace = o.oid AND b.proname = 'outbox_append_batch' AND b.proowner = e.relowner
 WHERE c.oid = @table

-- query: Since
-- The versions of streams that have no event after a sequence.
SELECT s.stream, coalesce(l.stream_version, h.stream_version, 0)
  FROM unnest(@streams::text[]) AS s (stream)
  LEFT JOIN LATERAL (SELECT e.stream_version, e.sequence FROM {schema}.events AS e
                      WHERE e.stream_id = s.stream ORDER BY e.stream_version DESC LIMIT 1) AS l ON true
  LEFT JOIN {schema}.outbox_stream_heads AS h ON h.stream_id = s.stream
 WHERE coalesce(l.sequence, 0) <= @begun

-- query: Append
SELECT count(*)
  FROM {schema}.outbox_append_batch(@streams::text[], @types::text[], @payloads::bytea[], @ids::uuid[], @versions::bigint[],
           @metadata::text[]::jsonb[], @topics::text[], @keys::text[], NULL::bigint[], NULL::text[], @tenants::text[],
           NULL::boolean[], NULL::timestamptz[], @occurred::timestamptz[])
