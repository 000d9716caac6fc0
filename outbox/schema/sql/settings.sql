-- query: Living
-- Workers, with the term of each heartbeat that ends later than it can: the clock has stepped back.
SELECT w.worker_id, w.heartbeat_until,
       CASE WHEN w.heartbeat_until > clock_timestamp() + w.heartbeat_ttl + @steady::interval THEN w.heartbeat_ttl END
  FROM {schema}.outbox_workers AS w
 WHERE w.heartbeat_until > clock_timestamp()

-- query: SetPlaces
-- Stores the relation of the events, stream and subjects, if that relation exists and no worker lives:
-- a living one has read the former, and goes on with them. @silent were watched, and are dead.
WITH asked AS (
       SELECT to_regclass(@quoted) IS NOT NULL AS there,
              (SELECT count(*) FROM {schema}.outbox_workers AS w
                WHERE w.heartbeat_until > clock_timestamp()
                  AND (w.worker_id, w.heartbeat_until) NOT IN (SELECT * FROM unnest(@silent::uuid[], @silent_until::timestamptz[]))) AS living),
     stored AS (
       UPDATE {schema}.outbox_settings AS s
          SET events_relation = @relation, stream_name = nullif(@stream::text, ''), subject_template = nullif(@subject::text, '')
         FROM asked AS a
        WHERE a.there AND a.living = 0
    RETURNING 1)
SELECT a.there, a.living FROM asked AS a

-- query: SetControlPrefix
-- Stores the prefix of control subjects, where no partition was ever owned: a record under
-- the former prefix would not be found. Returns the former prefix.
WITH asked AS (
       SELECT EXISTS (SELECT FROM {schema}.outbox_partitions AS p WHERE p.lease_epoch > 0)
              OR EXISTS (SELECT FROM {schema}.outbox_former_partitions)
              OR EXISTS (SELECT FROM {schema}.outbox_workers AS w WHERE w.heartbeat_until > clock_timestamp()) AS used),
     stored AS (
       UPDATE {schema}.outbox_settings AS s
          SET control_prefix = @prefix
         FROM asked AS a
        WHERE NOT a.used AND s.control_prefix <> @prefix
    RETURNING 1)
SELECT s.control_prefix, a.used FROM {schema}.outbox_settings AS s, asked AS a

-- query: Creators
-- Roles that may create in the outbox's schema, with the cure's statement. Superusers and members of the
-- tables' owner are left out; before the first migration this session is the owner.
WITH place AS (
       SELECT n.nspname, n.nspowner, n.nspacl, coalesce(c.relowner, (SELECT u.oid FROM pg_roles AS u WHERE u.rolname = current_user)) AS relowner, d.datdba
         FROM pg_namespace AS n
         LEFT JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = 'outbox_settings'
         JOIN pg_database AS d ON d.datname = current_database()
        WHERE n.nspname = @schema)
SELECT coalesce(r.rolname, 'PUBLIC'),
       CASE WHEN a.grantee = p.nspowner THEN format('ALTER SCHEMA %I OWNER TO %I', p.nspname, pg_get_userbyid(p.relowner))
            WHEN a.grantee = 0 THEN format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', p.nspname)
            ELSE format('REVOKE CREATE ON SCHEMA %I FROM %I', p.nspname, r.rolname) END
  FROM place AS p
 CROSS JOIN LATERAL aclexplode(coalesce(p.nspacl, acldefault('n', p.nspowner))) AS a
  LEFT JOIN pg_roles AS r ON r.oid = a.grantee
  LEFT JOIN pg_roles AS h -- the one member of that role is the database's owner
         ON h.oid = CASE WHEN r.rolname = 'pg_database_owner' THEN p.datdba ELSE a.grantee END
 WHERE a.privilege_type = 'CREATE'
   AND (h.oid IS NULL OR NOT h.rolsuper AND NOT pg_has_role(h.oid, p.relowner, 'MEMBER'))
 ORDER BY 1

-- query: Strangers
-- Others' functions beside those of the outbox, under their names.
SELECT pg_get_userbyid(f.proowner), format('DROP FUNCTION %s', f.oid::regprocedure)
  FROM pg_class AS c
  JOIN pg_proc AS f ON f.pronamespace = c.relnamespace AND f.proowner <> c.relowner
 WHERE c.relname = 'outbox_settings' AND c.relnamespace = to_regnamespace(quote_ident(@schema))
   AND EXISTS (SELECT FROM pg_proc AS o WHERE o.pronamespace = c.relnamespace AND o.proname = f.proname AND o.proowner = c.relowner)
 ORDER BY 2
