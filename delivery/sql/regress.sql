-- The database has forgotten what was published: from now on every message
-- carries a higher generation, and the log of operators' actions says why. Once
-- for each database and timeline; the settings' row decides who comes first.
WITH noted AS (
       SELECT format('%s/%s', c.system_identifier, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)) AS identity
         FROM pg_control_system() AS c),
     raised AS (
       UPDATE {schema}.outbox_settings AS s
          SET generation = s.generation + 1,
              regressed  = noted.identity
         FROM noted
        WHERE s.regressed IS DISTINCT FROM noted.identity
    RETURNING s.generation),
     audited AS (
       INSERT INTO {schema}.outbox_audit (actor, action, target, reason, details)
       SELECT 'postrider', 'database.regressed', jsonb_build_object('identity', noted.identity), $1,
              jsonb_build_object('generation', raised.generation, 'partition', $2::int)
         FROM noted, raised)
SELECT coalesce((SELECT generation FROM raised), 0)
