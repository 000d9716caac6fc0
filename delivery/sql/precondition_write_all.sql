-- As a grant on every table and sequence. A warning only: providers give it to
-- administrators of theirs, from whom it cannot be taken.
SELECT format('%I holds pg_write_all_data: it could draw a sequence before the INSERT that uses it, and must not', r.rolname),
       format('REVOKE pg_write_all_data FROM %I', r.rolname)
  FROM pg_auth_members AS m
  JOIN pg_roles AS r ON r.oid = m.member
 WHERE m.roleid = 'pg_write_all_data'::regrole AND NOT r.rolsuper
 GROUP BY r.rolname
 ORDER BY r.rolname
