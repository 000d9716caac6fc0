-- What the preconditions look at: the events relation, if it is a table, and
-- everything that inherits from it, and the sequences of their identity columns.
WITH RECURSIVE lineage (relid, root) AS (
       SELECT c.oid, true
         FROM pg_class AS c
        WHERE c.oid = to_regclass($1) AND c.relkind IN ('r', 'p')
        UNION
       SELECT i.inhrelid, false
         FROM lineage AS l
         JOIN pg_inherits AS i ON i.inhparent = l.relid),
     family AS (
       SELECT l.relid, l.root, format('%I.%I', n.nspname, c.relname) AS name, c.relowner, c.relacl, c.relkind,
              c.relpersistence, c.relispartition, a.attnum, a.attidentity, a.atthasdef, a.attacl
         FROM lineage AS l
         JOIN pg_class AS c ON c.oid = l.relid
         JOIN pg_namespace AS n ON n.oid = c.relnamespace
         LEFT JOIN pg_attribute AS a ON a.attrelid = l.relid AND a.attname = 'sequence' AND NOT a.attisdropped),
     sequences AS (
       SELECT f.root, f.relid, f.relkind AS tablekind, f.relpersistence AS tablepersistence, s.seqrelid, s.seqcache, s.seqincrement,
              s.seqcycle, format('%I.%I', n.nspname, c.relname) AS name, c.relowner, c.relacl, c.relpersistence
         FROM family AS f
         JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
                            AND d.refobjid = f.relid AND d.refobjsubid = f.attnum AND d.deptype = 'i'
         JOIN pg_sequence AS s ON s.seqrelid = d.objid
         JOIN pg_class AS c ON c.oid = s.seqrelid
         JOIN pg_namespace AS n ON n.oid = c.relnamespace)
