-- What the workers' statements need of the server: that it may be written to, and the
-- functions $1 of pg_catalog. The variant with bytea of a function is not used.
SELECT pg_is_in_recovery(),
       current_setting('transaction_read_only')::boolean,
       current_user::text,
       ARRAY(SELECT p.oid::regprocedure::text
               FROM pg_catalog.pg_proc AS p
              WHERE p.pronamespace = 'pg_catalog'::regnamespace
                AND p.proname = ANY ($1::name[])
                AND NOT 'bytea'::regtype = ANY (p.proargtypes::oid[])
                AND NOT has_function_privilege(p.oid, 'EXECUTE')
              ORDER BY p.proname),
       ARRAY(SELECT f.name
               FROM unnest($1::name[]) AS f (name)
              WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_proc AS p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = f.name)
              ORDER BY f.name)
