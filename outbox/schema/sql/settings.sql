-- query: EventsRelation
SELECT s.events_relation FROM {schema}.outbox_settings AS s

-- query: SetEventsRelation
-- Stores the relation with the events, if it is there and no worker lives: one that does
-- has looked already, and reads the former one.
WITH asked AS (
       SELECT to_regclass(@quoted) IS NOT NULL AS there,
              (SELECT count(*) FROM {schema}.outbox_workers AS w WHERE w.heartbeat_until > clock_timestamp()) AS living),
     stored AS (
       UPDATE {schema}.outbox_settings AS s
          SET events_relation = @relation
         FROM asked AS a
        WHERE a.there AND a.living = 0
    RETURNING 1)
SELECT a.there, a.living FROM asked AS a
