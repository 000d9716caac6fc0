-- Numbers must be drawn one by one and ascending: a session that caches some
-- uses the low ones after others have used higher ones.
{family}
SELECT format('%s has cache %s, increment %s%s%s: sequences would not ascend one by one%s', name, seqcache, seqincrement,
              CASE WHEN seqcycle THEN ', cycle' END,
              CASE WHEN relpersistence <> 'p' THEN ', is unlogged' END,
              CASE WHEN seqcache <> 1 THEN '; mend it and restart the producers, whose sessions use up what they have cached' END),
       format('ALTER SEQUENCE %s CACHE 1 INCREMENT 1 NO CYCLE', name)
         || CASE WHEN relpersistence <> 'p' THEN format('; ALTER SEQUENCE %s SET LOGGED', name) ELSE '' END
  FROM sequences
 WHERE root
   AND (seqcache <> 1 OR seqincrement <> 1 OR seqcycle
        -- an unlogged table mends its sequence when it is mended
        OR relpersistence <> 'p' AND (tablekind = 'p' OR tablepersistence = 'p'))
