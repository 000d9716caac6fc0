-- Takes the lock of whoever freezes the outbox, for as long as the transaction lives.
-- It comes back with the one that froze it before, and without a row when that one
-- is still at work.
SELECT s.frozen_by
  FROM {schema}.outbox_settings AS s
 WHERE pg_try_advisory_xact_lock(hashtext('postrider freeze'), hashtext(s.outbox_id::text))
