-- query: Database
-- What the workers' statements need of the server: that it may be written to, and the
-- functions asked for, of pg_catalog. The variant with bytea of a function is not used.
SELECT pg_is_in_recovery(),
       current_setting('transaction_read_only')::boolean,
       current_user::text,
       ARRAY(SELECT p.oid::regprocedure::text
               FROM pg_catalog.pg_proc AS p
              WHERE p.pronamespace = 'pg_catalog'::regnamespace
                AND p.proname = ANY (@functions::name[])
                AND NOT 'bytea'::regtype = ANY (p.proargtypes::oid[])
                AND NOT has_function_privilege(p.oid, 'EXECUTE')
              ORDER BY p.proname),
       ARRAY(SELECT f.name
               FROM unnest(@functions::name[]) AS f (name)
              WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_proc AS p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = f.name)
              ORDER BY f.name)

-- query: Columns
-- What the events relation offers; a view is as good as a table.
SELECT a.attname, a.atttypid::regtype::text
  FROM pg_attribute AS a
 WHERE a.attrelid = to_regclass(@relation) AND a.attnum > 0 AND NOT a.attisdropped
