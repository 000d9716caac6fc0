-- Whatever the relay itself wrote into events would hold back its own watermark.
-- Not said of owner and superuser, who may do everything.
{family},
     acl AS (
       SELECT f.name, a.grantee, a.privilege_type, f.relowner
         FROM family AS f, aclexplode(coalesce(f.relacl, acldefault('r', f.relowner))) AS a
        UNION ALL
       SELECT f.name, a.grantee, a.privilege_type, f.relowner
         FROM family AS f
         JOIN pg_attribute AS c ON c.attrelid = f.relid AND NOT c.attisdropped
        CROSS JOIN aclexplode(c.attacl) AS a),
     held AS (
       SELECT name AS place, grantee, string_agg(DISTINCT privilege_type, ', ') AS privileges
         FROM acl
        WHERE privilege_type IN ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE')
          AND NOT pg_has_role(relowner, 'USAGE')
          AND (grantee = 0 OR pg_has_role(grantee, 'USAGE'))
        GROUP BY name, grantee
        UNION ALL
       SELECT 'all tables', 'pg_write_all_data'::regrole, 'INSERT, UPDATE, DELETE'
         FROM family AS f
        WHERE f.root AND NOT pg_has_role(f.relowner, 'USAGE') AND pg_has_role('pg_write_all_data', 'USAGE')),
     named AS (
       SELECT h.*, coalesce(quote_ident(r.rolname), 'PUBLIC') AS role
         FROM held AS h
         LEFT JOIN pg_roles AS r ON r.oid = h.grantee)
SELECT format('the relay''s role %I may write (%s on %s%s), and must never do it: it would hold back its own watermark',
              current_user, privileges, place, CASE WHEN role <> quote_ident(current_user) THEN ' through ' || role END),
       CASE WHEN role IN ('PUBLIC', quote_ident(current_user)) THEN format('REVOKE %s ON %s FROM %s', privileges, place, role)
            ELSE format('REVOKE %s FROM %I', role, current_user) END
  FROM named
 ORDER BY place, role
