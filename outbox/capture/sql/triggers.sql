-- query: Body
-- The body of a captured table's function, which is sent when it is made. Table and settings fill the braces.
DECLARE
    old_stream   text;
    new_stream   text;
    old_row      text;
    new_row      text;
    other        text;
    keys         text[];
    keys_types   oid[];
    chosen       text[];
    chosen_types oid[];
    same         boolean;
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        RAISE EXCEPTION 'TRUNCATE of % would tell nothing of its rows, which are captured', TG_RELID::regclass
            USING ERRCODE = '0A000', HINT = 'DELETE tells of each row; `postrider capture drop` ends the capture.';
    END IF;
    IF TG_RELID = {TABLE} OR EXISTS (SELECT FROM pg_partition_ancestors(TG_RELID) AS a WHERE a.relid = {TABLE}) THEN
        {KEYS};
        {NOW}
        IF cardinality(keys) <> {MOST} THEN
            RAISE EXCEPTION 'a column of the key of %, which is captured, was dropped', TG_RELID::regclass
                USING ERRCODE = '55000', HINT = '`postrider capture create --replace` --key names another key, `postrider capture drop` ends the capture.';
        END IF;
    ELSE
        keys := {NAMES};
        {BEFORE}
        IF {DOUBT} THEN
            RAISE EXCEPTION 'which columns of % are captured cannot be known: it was restored from a dump, and has columns of other names', TG_RELID::regclass
                USING ERRCODE = '55000', HINT = '`postrider capture create --replace` says it anew.';
        END IF;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        {OLD_STREAM}
    END IF;
    IF TG_OP <> 'DELETE' THEN
        {NEW_STREAM}
    END IF;
    same := TG_OP = 'UPDATE' AND old_stream = new_stream;
    IF same AND NOT {UPDATES} THEN
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        {OLD_ROW}
    END IF;
    IF TG_OP <> 'DELETE' THEN
        {NEW_ROW}
    END IF;
    IF same THEN
        IF old_row <> new_row THEN
            {UPDATED}
        END IF;
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        {DELETED}
    END IF;
    IF TG_OP <> 'DELETE' THEN
        {INSERTED}
    END IF;
    RETURN NULL;
END

-- query: Guard
-- Begins each function. A role that hangs it on its table, by default privileges, must not append for this one; the mark of
-- outbox_without_enqueue must not work for a role without that right.
    IF TG_RELID <> {TABLE} AND NOT EXISTS (SELECT FROM pg_catalog.pg_partition_ancestors(TG_RELID) AS a WHERE a.relid = {TABLE})
       AND NOT EXISTS (SELECT FROM pg_catalog.pg_class AS c WHERE c.oid = TG_RELID AND pg_catalog.pg_get_userbyid(c.relowner) = current_user) THEN
        RAISE EXCEPTION '% is not the table of this function', TG_RELID::regclass USING ERRCODE = '42501';
    END IF;
    IF pg_catalog.current_setting('postrider.replaying', true) <> '' AND NOT pg_catalog.has_function_privilege(
           CASE pg_catalog.current_setting('role') WHEN 'none' THEN session_user ELSE pg_catalog.current_setting('role') END,
           {FUNCTION}, 'EXECUTE') THEN
        PERFORM pg_catalog.set_config('postrider.replaying', '', true);
    END IF;

-- query: Revoked
-- Leaves a function to its owner, whatever default privileges gave to others.
DECLARE
    other text;
BEGIN
    FOR other IN SELECT pg_catalog.format('%I', r.rolname)
                   FROM pg_catalog.pg_proc AS p
                  CROSS JOIN LATERAL pg_catalog.aclexplode(p.proacl) AS a
                   JOIN pg_catalog.pg_roles AS r ON r.oid = a.grantee
                  WHERE p.oid = {FUNCTION}::pg_catalog.regprocedure AND a.grantee <> p.proowner LOOP
        EXECUTE 'REVOKE ALL ON FUNCTION ' || {FUNCTION} || ' FROM ' || other;
    END LOOP;
END

-- query: Find
-- The tables that a name may mean, with obstacles to a trigger. The tables of outbox and inbox cannot be captured.
SELECT c.oid, n.nspname::text, c.relname::text, c.relowner::regrole::text, c.relkind IN ('r', 'p'),
       pg_has_role(c.relowner, 'USAGE'),
       has_schema_privilege(c.relowner, o.oid, 'USAGE') AND has_function_privilege(c.relowner, p.oid, 'EXECUTE'),
       has_schema_privilege(o.oid, 'USAGE') AND has_table_privilege(e.oid, 'SELECT')
           AND has_table_privilege(format('%I.outbox_stream_heads', o.nspname), 'SELECT'),
       c.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhparent = c.oid),
       to_regclass(format('%I.outbox_schema_version', n.nspname)) IS NOT NULL
           AND (c.relname = ANY ({outbox_tables})
                OR EXISTS (SELECT FROM pg_partition_ancestors(c.oid) AS a WHERE a.relid = to_regclass(format('%I.events', n.nspname))))
           OR to_regclass(format('%I.inbox_schema_version', n.nspname)) IS NOT NULL AND c.relname = ANY ({inbox_tables}),
       EXISTS (SELECT FROM pg_trigger AS t WHERE t.tgrelid = c.oid AND t.tgname = @trigger)
  FROM pg_namespace AS o
  JOIN pg_class AS e ON e.relnamespace = o.oid AND e.relname = 'events'
  JOIN pg_proc AS p ON p.pronamespace = o.oid AND p.proname = 'outbox_append_bytes' AND p.proowner = e.relowner
 CROSS JOIN pg_class AS c
  JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE o.nspname = @schema
   AND EXISTS (SELECT FROM unnest(@schemas::text[], @names::text[]) AS w (schema, name) WHERE w.schema = n.nspname AND w.name = c.relname)
   AND c.relkind IN ('r', 'p', 'v', 'm', 'f')

-- query: Columns
-- The columns of a table in their order, with their base types and their places in the primary key, 0 for none; and the schema of the
-- operators that compare such a key.
SELECT a.attname::text, format_type(coalesce(nullif(t.typbasetype, 0), t.oid), -1), a.attnotnull,
       coalesce(array_position(k.conkey, a.attnum), 0),
       a.attidentity <> '' OR coalesce(pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%', false), a.attnum, a.atttypid, a.attcollation,
       coalesce((SELECT n.nspname::text
                   FROM pg_index AS i
                   JOIN pg_opclass AS c ON c.oid = i.indclass[array_position(k.conkey, a.attnum) - 1]
                   JOIN pg_amop AS m ON m.amopfamily = c.opcfamily AND m.amoplefttype = c.opcintype AND m.amoprighttype = c.opcintype AND m.amopstrategy = 3
                   JOIN pg_operator AS o ON o.oid = m.amopopr
                   JOIN pg_namespace AS n ON n.oid = o.oprnamespace
                  WHERE i.indexrelid = k.conindid AND c.opcmethod = (SELECT b.oid FROM pg_am AS b WHERE b.amname = 'btree')), 'pg_catalog')
  FROM pg_attribute AS a
  JOIN pg_type AS t ON t.oid = a.atttypid
  LEFT JOIN pg_constraint AS k ON k.conrelid = a.attrelid AND k.contype = 'p'
  LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE a.attrelid = @table AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attnum

-- query: Late
-- Whether rows may have one key until a statement or a transaction ends: no index keeps them apart at once, but one that is deferrable.
SELECT coalesce(bool_and(NOT i.indimmediate), false)
  FROM pg_index AS i
 WHERE i.indrelid = @table AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
   AND (i.indkey::int[])[0:i.indnkeyatts - 1] <@ @numbers::text::int[]

-- query: Membership
-- A publication's part of a table that it names: to_jsonb, since servers before 15 have neither lists nor filters.
SELECT coalesce((SELECT array_agg(a.attname::text ORDER BY a.attnum)
                   FROM pg_attribute AS a
                  WHERE a.attrelid = r.prrelid AND a.attnum::text IN (SELECT (regexp_matches(to_jsonb(r) ->> 'prattrs', '\d+', 'g'))[1])), '{}'),
       coalesce((SELECT to_jsonb(v) ->> 'rowfilter'
                   FROM pg_publication_tables AS v
                  WHERE v.pubname = p.pubname AND v.schemaname = n.nspname AND v.tablename = c.relname), ''),
       to_jsonb(r) ->> 'prqual' IS NOT NULL
  FROM pg_publication AS p
  JOIN pg_publication_rel AS r ON r.prpubid = p.oid
  JOIN pg_class AS c ON c.oid = r.prrelid
  JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE p.pubname = @publication AND r.prrelid = @table

-- query: Published
-- True where such a publication has tables one by one.
SELECT EXISTS (SELECT FROM pg_publication AS p WHERE p.pubname = @publication AND NOT p.puballtables)

-- query: Installed
-- The functions that append to this outbox for a table, with their triggers, and the facts about their faults. The triggers of partitions
-- are their table's. A function without a trigger is the rest of a dropped table.
SELECT f.nspname::text, p.proname::text, p.proowner::regrole::text, coalesce(obj_description(p.oid, 'pg_proc'), ''),
       coalesce(t.tgname::text, ''), coalesce(c.oid, 0), coalesce(n.nspname::text, ''), coalesce(c.relname::text, ''), coalesce(t.tgenabled::text, ''),
       coalesce(c.relowner::regrole::text, ''),
       coalesce((SELECT jsonb_object_agg(a.attnum::text, a.attname) FROM pg_attribute AS a
                  WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), '{}'),
       ARRAY(SELECT i.inhrelid::regclass::text
               FROM pg_inherits AS i JOIN pg_class AS child ON child.oid = i.inhrelid AND NOT child.relispartition
              WHERE i.inhparent = c.oid
                AND NOT EXISTS (SELECT FROM pg_trigger AS own WHERE own.tgrelid = i.inhrelid AND own.tgname = t.tgname AND own.tgenabled IN ('O', 'A'))
              ORDER BY 1),
       ARRAY(SELECT part.relid::regclass::text
               FROM pg_partition_tree(c.oid) AS part
              WHERE part.level > 0
                AND NOT EXISTS (SELECT FROM pg_trigger AS own
                                 WHERE own.tgrelid = part.relid AND own.tgfoid = p.oid AND own.tgname = t.tgname AND own.tgenabled IN ('O', 'A'))
              ORDER BY 1),
       coalesce((SELECT g.tgenabled::text FROM pg_trigger AS g WHERE g.tgrelid = c.oid AND g.tgfoid = p.oid AND g.tgname = t.tgname || '_truncate'), ''),
       has_schema_privilege(p.proowner, o.oid, 'USAGE') AND (SELECT bool_and(has_function_privilege(p.proowner, append.oid, 'EXECUTE'))
           FROM pg_proc AS append WHERE append.pronamespace = o.oid AND append.proowner = o_events.relowner AND append.proname LIKE 'outbox\_append\_%'
                  AND strpos(p.prosrc, '.' || append.proname || '(') > 0),
       ARRAY(SELECT v.pubname::text FROM pg_publication_tables AS v WHERE v.schemaname = n.nspname AND v.tablename = c.relname)
  FROM pg_namespace AS o
  JOIN pg_class AS o_events ON o_events.relnamespace = o.oid AND o_events.relname = 'events'
 CROSS JOIN pg_proc AS p
  JOIN pg_namespace AS f ON f.oid = p.pronamespace
  LEFT JOIN pg_trigger AS t ON t.tgfoid = p.oid AND t.tgname = ANY (@triggers::text[]) AND t.tgparentid = 0
  LEFT JOIN pg_class AS c ON c.oid = t.tgrelid
  LEFT JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE o.nspname = @schema AND p.prorettype = 'trigger'::regtype AND strpos(p.prosrc, @calls) > 0
   AND (t.oid IS NOT NULL OR p.proname LIKE 'postrider\_capture\_%' OR p.proname LIKE 'postrider\_adopt\_%')
 ORDER BY 7, 8, 5, 2

-- query: LimitLocks
-- Bounds this transaction's waits for a table, in milliseconds. Its work takes as long as the table is large. A suspended process blocks
-- nobody from the table.
SELECT set_config('lock_timeout', @limit, true), set_config('statement_timeout', '0', true),
       set_config('idle_in_transaction_session_timeout', '10s', true), CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL THEN set_config('transaction_timeout', '0', true) END
