-- query: LockFreeze
-- Takes the lock of whoever freezes the outbox, for as long as the transaction lives.
-- It comes back with the one that froze it before, and without a row when that one
-- is still at work.
SELECT s.frozen_by
  FROM {schema}.outbox_settings AS s
 WHERE pg_try_advisory_xact_lock(hashtext('postrider freeze'), hashtext(s.outbox_id::text))

-- query: StayIdle
-- Nothing is done in this session for as long as the work takes.
SET LOCAL idle_in_transaction_session_timeout = 0

-- query: Freeze
UPDATE {schema}.outbox_settings SET frozen_at = clock_timestamp(), frozen_by = @owner

-- query: Thaw
UPDATE {schema}.outbox_settings SET frozen_at = NULL, frozen_by = NULL WHERE frozen_by = @owner

-- fragment: frozen
-- Whether somebody at work has frozen the outbox of the settings s: the session of
-- whoever froze it holds the lock. Nothing is looked for while nothing is frozen.
CASE WHEN s.frozen_at > clock_timestamp() - interval '1 minute'
     THEN EXISTS (SELECT
                    FROM pg_locks AS k
                   WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 2
                     AND k.classid = hashtext('postrider freeze')::oid AND k.objid = hashtext(s.outbox_id::text)::oid
                     AND k.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()))
     ELSE false END
