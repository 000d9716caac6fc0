-- The locks that are watched are those of tables in this database, and their
-- sequences must survive a crash.
{family}
SELECT detail, cure
  FROM (SELECT 0 AS rank, '' AS name,
               format('%I.%I is a %s: the locks of those who write behind it are not known', n.nspname, c.relname,
                      CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'f' THEN 'foreign table'
                                     ELSE 'relation of another kind' END) AS detail,
               'name the table itself with postrider migrate up --events-relation' AS cure
          FROM pg_class AS c
          JOIN pg_namespace AS n ON n.oid = c.relnamespace
         WHERE c.oid = to_regclass($1) AND c.relkind NOT IN ('r', 'p')
         UNION ALL
        SELECT 1, f.name,
               format('%s, a part of %s, is a foreign table: the locks of those who write there are not known', f.name, p.name),
               format(CASE WHEN f.relispartition THEN 'ALTER TABLE %2$s DETACH PARTITION %1$s'
                           ELSE 'ALTER FOREIGN TABLE %1$s NO INHERIT %2$s' END, f.name, p.name)
          FROM family AS f
          JOIN pg_inherits AS i ON i.inhrelid = f.relid
          JOIN family AS p ON p.relid = i.inhparent
         WHERE f.relkind NOT IN ('r', 'p')
         UNION ALL
        SELECT 2, f.name,
               format('%s is unlogged: a crash empties it, and its sequences may be used again', f.name),
               format('ALTER TABLE %s SET LOGGED', f.name)
          FROM family AS f
         WHERE f.relkind = 'r' AND f.relpersistence = 'u') AS found
 ORDER BY rank, name
