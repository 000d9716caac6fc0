-- Whoever may draw a number beforehand, or bring one with OVERRIDING SYSTEM
-- VALUE, can make a sequence appear below the watermark. A grant on columns
-- without sequence allows neither. Owner and superusers are trusted.
{family},
     held AS (
       SELECT 1 AS rank, s.name, a.grantee, string_agg(a.privilege_type, ', ' ORDER BY a.privilege_type DESC) AS privileges,
              format('sequence %s', s.name) AS place, bool_or(a.is_grantable) AS grantable, NULL::oid AS relid
         FROM sequences AS s, aclexplode(coalesce(s.relacl, acldefault('s', s.relowner))) AS a
        WHERE s.root AND a.privilege_type IN ('USAGE', 'UPDATE')
        GROUP BY s.name, a.grantee
        UNION ALL
       SELECT 2, f.name, a.grantee, 'INSERT', format('table %s', f.name), bool_or(a.is_grantable), f.relid
         FROM family AS f, aclexplode(coalesce(f.relacl, acldefault('r', f.relowner))) AS a
        WHERE a.privilege_type = 'INSERT'
        GROUP BY f.relid, f.name, a.grantee
        UNION ALL
       SELECT 3, f.name, a.grantee, 'INSERT (sequence)', format('table %s', f.name), bool_or(a.is_grantable), NULL
         FROM family AS f, aclexplode(f.attacl) AS a
        WHERE a.privilege_type = 'INSERT'
        GROUP BY f.name, a.grantee),
     named AS (
       SELECT h.*, coalesce(quote_ident(r.rolname), 'PUBLIC') AS role,
              CASE WHEN h.grantable THEN ' CASCADE' ELSE '' END AS reach
         FROM held AS h
         LEFT JOIN pg_roles AS r ON r.oid = h.grantee
        WHERE NOT coalesce(r.rolsuper, false)
          AND h.grantee <> (SELECT f.relowner FROM family AS f WHERE f.root))
SELECT format('%s holds %s: a sequence could be drawn before the INSERT that uses it', role,
              string_agg(format('%s on %s', privileges, place), ', ' ORDER BY rank, name)),
       string_agg(
         format('REVOKE %s ON %s FROM %s%s', privileges, place, role, reach)
         -- producers keep the right to insert, the relay needs none
         || CASE WHEN relid IS NULL OR role = quote_ident(current_user) THEN ''
                 ELSE (SELECT format('; GRANT INSERT (%s) ON %s TO %s',
                                     string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum), place, role)
                         FROM pg_attribute AS a
                        WHERE a.attrelid = named.relid AND a.attnum > 0 AND NOT a.attisdropped
                          AND a.attgenerated = '' AND a.attname <> 'sequence') END,
         '; ' ORDER BY rank, name)
  FROM named
 GROUP BY role
 ORDER BY role
