-- The database has forgotten what was published under the generation $3: from now on
-- every message carries a higher one, and the log of operators' actions says why. What
-- is noticed later of the same loss finds the generation raised; the settings' row
-- decides who comes first.
WITH raised AS (
       UPDATE {schema}.outbox_settings AS s
          SET generation = $3::int + 1,
              regressed  = clock_timestamp()
        WHERE s.generation <= $3::int
    RETURNING s.generation),
     audited AS (
       INSERT INTO {schema}.outbox_audit (actor, action, target, reason, details)
       SELECT 'postrider', 'database.regressed', jsonb_build_object('partition', $2::int), $1,
              jsonb_build_object('generation', raised.generation, 'partition', $2::int)
         FROM raised)
SELECT coalesce((SELECT generation FROM raised), 0)
