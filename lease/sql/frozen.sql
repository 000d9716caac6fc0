-- Whether somebody at work has frozen the outbox of the settings s: the session of
-- whoever froze it holds the lock. Nothing is looked for while nothing is frozen.
CASE WHEN s.frozen_at > clock_timestamp() - interval '1 minute'
     THEN EXISTS (SELECT
                    FROM pg_locks AS k
                   WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 2
                     AND k.classid = hashtext('postrider freeze')::oid AND k.objid = hashtext(s.outbox_id::text)::oid
                     AND k.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()))
     ELSE false END
