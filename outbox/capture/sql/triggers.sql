-- query: Find
-- A table by its name, with or without its schema, and what stands in the way of a trigger. What appending writes to itself cannot be
-- captured.
SELECT c.oid, n.nspname::text, c.relname::text, c.relowner::regrole::text, c.relkind IN ('r', 'p'),
       pg_has_role(c.relowner, 'USAGE'),
       has_schema_privilege(c.relowner, o.oid, 'USAGE') AND has_function_privilege(c.relowner, p.oid, 'EXECUTE'),
       has_schema_privilege(o.oid, 'USAGE') AND has_table_privilege(e.oid, 'SELECT')
           AND has_table_privilege(format('%I.outbox_stream_heads', o.nspname), 'SELECT'),
       c.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhparent = c.oid),
       n.oid = o.oid AND c.relname IN ('events', 'outbox', 'outbox_ready', 'outbox_parked', 'outbox_dedupe_keys'),
       EXISTS (SELECT FROM pg_trigger AS t WHERE t.tgrelid = c.oid AND t.tgname = @trigger)
  FROM pg_namespace AS o
  JOIN pg_class AS e ON e.relnamespace = o.oid AND e.relname = 'events'
  JOIN pg_proc AS p ON p.pronamespace = o.oid AND p.proname = 'outbox_append_bytes' AND p.proowner = e.relowner
 CROSS JOIN pg_class AS c
  JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE o.nspname = @schema
   AND (format('%s.%s', n.nspname, c.relname) = @table OR n.nspname = 'public' AND c.relname = @table)
   AND c.relkind IN ('r', 'p', 'v', 'm', 'f')

-- query: Columns
-- The columns of a table in their order, with their base types and their places in the primary key, 0 for none.
SELECT a.attname::text, coalesce(nullif(t.typbasetype, 0), t.oid)::regtype::text, a.attnotnull,
       coalesce(array_position(k.conkey, a.attnum), 0),
       a.attidentity <> '' OR coalesce(pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%', false)
  FROM pg_attribute AS a
  JOIN pg_type AS t ON t.oid = a.atttypid
  LEFT JOIN pg_constraint AS k ON k.conrelid = a.attrelid AND k.contype = 'p'
  LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE a.attrelid = @table AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attnum

-- query: Narrowed
-- Whether a publication has a row filter or a list of columns for a table: to_jsonb, since servers before 15 have neither.
SELECT EXISTS (SELECT
                 FROM pg_publication AS p
                 JOIN pg_publication_rel AS r ON r.prpubid = p.oid
                 JOIN pg_class AS c ON c.oid = r.prrelid
                 JOIN pg_namespace AS n ON n.oid = c.relnamespace
                WHERE p.pubname = @publication AND format('%s.%s', n.nspname, c.relname) = @table
                  AND coalesce(to_jsonb(r) ->> 'prqual', to_jsonb(r) ->> 'prattrs') IS NOT NULL)

-- query: Installed
-- The triggers that call this outbox. Those of partitions are their table's.
SELECT t.tgname::text, n.nspname::text, c.relname::text, f.nspname::text, p.proname::text, p.proowner::regrole::text,
       t.tgenabled <> 'D', coalesce(obj_description(p.oid, 'pg_proc'), '')
  FROM pg_trigger AS t
  JOIN pg_class AS c ON c.oid = t.tgrelid
  JOIN pg_namespace AS n ON n.oid = c.relnamespace
  JOIN pg_proc AS p ON p.oid = t.tgfoid
  JOIN pg_namespace AS f ON f.oid = p.pronamespace
 WHERE t.tgname = ANY (@triggers::text[]) AND t.tgparentid = 0 AND strpos(p.prosrc, @calls) > 0
 ORDER BY 2, 3, 1

-- query: LimitLocks
-- For this transaction: whoever waits for a table longer than this, in milliseconds, fails.
SELECT set_config('lock_timeout', @limit, true)
