-- Logical replication brings numbers that another server drew. The name comes
-- from a view that every role may read, which has several rows for one name.
{family}
SELECT format('subscription %I writes into %s: it brings numbers that another server drew', s.subname,
              string_agg(f.name, ', ' ORDER BY f.root DESC, f.name)),
       format('DROP SUBSCRIPTION %1$I; or take the table out of its publication and ALTER SUBSCRIPTION %1$I REFRESH PUBLICATION', s.subname)
  FROM family AS f
  JOIN pg_subscription_rel AS r ON r.srrelid = f.relid
  JOIN (SELECT DISTINCT subid, subname FROM pg_stat_subscription) AS s ON s.subid = r.srsubid
 GROUP BY s.subname
 ORDER BY s.subname
