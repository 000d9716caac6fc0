-- What an operator needs, and whether this role has it. {events} may be a view.
SELECT w.purpose, w.privilege || coalesce(' (' || w.columns || ')', '') || ' ON ' || w.relation
  FROM (VALUES
         ('look', 'SELECT', NULL, '{schema}.outbox'),
         ('look', 'SELECT', NULL, '{schema}.outbox_deliveries'),
         ('look', 'SELECT', NULL, '{schema}.outbox_partitions'),
         ('look', 'SELECT', NULL, '{schema}.outbox_workers'),
         ('look', 'SELECT', 'sequence, event_id, stream_id, stream_version, event_type, tenant_id, metadata, recorded_at', '{events}'),
         ('act', 'UPDATE', NULL, '{schema}.outbox'),
         ('act', 'DELETE', NULL, '{schema}.outbox'),
         ('act', 'INSERT', NULL, '{schema}.outbox_deliveries'),
         ('act', 'INSERT', NULL, '{schema}.outbox_audit'),
         ('act', 'SELECT', NULL, '{schema}.outbox_throughput'),
         ('act', 'INSERT', NULL, '{schema}.outbox_throughput'),
         ('act', 'UPDATE', NULL, '{schema}.outbox_throughput'),
         ('act', 'UPDATE', 'paused_at, updated_at', '{schema}.outbox_partitions'),
         ('act', 'UPDATE', 'drain_requested_at', '{schema}.outbox_workers'),
         ('audit', 'SELECT', NULL, '{schema}.outbox_audit'),
         ('payload', 'SELECT', 'payload', '{events}')
       ) AS w (purpose, privilege, columns, relation)
 WHERE NOT CASE WHEN w.columns IS NULL THEN has_table_privilege(w.relation, w.privilege)
                ELSE (SELECT bool_and(has_column_privilege(w.relation, c, w.privilege))
                        FROM unnest(string_to_array(w.columns, ', ')) AS c) END
