-- pg_locks is open to everybody, most of pg_stat_activity is not.
SELECT format('role %I lacks pg_read_all_stats: of a transaction that holds back the order only the process id can be named, '
              || 'not the application and not its age', current_user),
       format('GRANT pg_read_all_stats TO %I', current_user)
 WHERE NOT pg_has_role('pg_read_all_stats', 'USAGE')
