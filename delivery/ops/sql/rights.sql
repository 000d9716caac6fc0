-- What an operator needs and this role does not have. {events} may be a view,
-- and lack some of the columns.
WITH needed (purpose, privilege, relation, columns) AS (
       VALUES
         ('look', 'SELECT', '{schema}.outbox', NULL),
         ('look', 'SELECT', '{schema}.outbox_deliveries', NULL),
         ('look', 'SELECT', '{schema}.outbox_partitions', NULL),
         ('look', 'SELECT', '{schema}.outbox_workers', NULL),
         ('look', 'SELECT', '{events}', '{sequence,event_id,stream_id,stream_version,event_type,topic,tenant_id,metadata,audit_only,occurred_at,recorded_at}'::name[]),
         ('act', 'UPDATE', '{schema}.outbox', NULL),
         ('act', 'DELETE', '{schema}.outbox', NULL),
         ('act', 'INSERT', '{schema}.outbox_deliveries', NULL),
         ('act', 'INSERT', '{schema}.outbox_audit', NULL),
         ('act', 'SELECT', '{schema}.outbox_throughput', NULL),
         ('act', 'INSERT', '{schema}.outbox_throughput', NULL),
         ('act', 'UPDATE', '{schema}.outbox_throughput', NULL),
         ('act', 'UPDATE', '{schema}.outbox_partitions', '{paused_at,updated_at}'),
         ('act', 'UPDATE', '{schema}.outbox_workers', '{drain_requested_at}'),
         ('audit', 'SELECT', '{schema}.outbox_audit', NULL),
         ('payload', 'SELECT', '{events}', ARRAY['payload']))
SELECT n.purpose, n.privilege || coalesce(' (' || there.names || ')', '') || ' ON ' || n.relation
  FROM needed AS n,
       LATERAL (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) AS names,
                       bool_and(has_column_privilege(a.attrelid, a.attnum, n.privilege)) AS held
                  FROM pg_attribute AS a
                 WHERE a.attrelid = n.relation::regclass AND a.attname = ANY (n.columns) AND NOT a.attisdropped) AS there
 WHERE NOT CASE WHEN n.columns IS NULL THEN has_table_privilege(n.relation, n.privilege) ELSE there.held END
