-- What strict order, fencing and operators need beyond the first tables.
--
-- Roles, beyond 00001:
--
--   GRANT SELECT, UPDATE ON {schema}.outbox_watermark TO app_relay;
--   GRANT UPDATE (generation, regressed) ON {schema}.outbox_settings TO app_relay;
--   GRANT SELECT ON {schema}.outbox_watermark, {schema}.outbox_ready, {schema}.outbox_parked TO app_monitor, app_operator;
--   GRANT SELECT (sequence) ON {schema}.events TO app_monitor;
--   GRANT SELECT ON {schema}.outbox_schema_version TO app_monitor, app_operator;
--   -- who requeues, skips and discards; the payload only where it may be shown
--   GRANT SELECT, INSERT, UPDATE ON {schema}.outbox_throughput TO app_operator;
--   GRANT SELECT (sequence, event_id, stream_id, stream_version, event_type, topic, metadata,
--                 tenant_id, routing_key, audit_only, occurred_at, recorded_at) ON {schema}.events TO app_operator;
--   -- who changes the number of partitions
--   GRANT UPDATE ON {schema}.outbox_deliveries TO app_operator;
--   GRANT UPDATE (partition_count, generation, regressed, frozen_at) ON {schema}.outbox_settings TO app_operator;
--   GRANT UPDATE, INSERT, DELETE ON {schema}.outbox_partitions TO app_operator;
--   -- names the transaction that holds the watermark back
--   GRANT pg_read_all_stats TO app_relay, app_monitor;

-- +goose Up
-- Every position up to safe_sequence is decided: its row is visible or will never
-- be. While there is a gap above it, candidate is the next position and holders
-- are the transactions, by virtual id, that may still fill the gap.
CREATE TABLE {schema}.outbox_watermark (
    safe_sequence bigint      NOT NULL DEFAULT 0,
    candidate     bigint,
    candidate_at  timestamptz,
    updated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    id            boolean     NOT NULL DEFAULT true CHECK (id),
    holders       text[],
    CONSTRAINT outbox_watermark_pkey PRIMARY KEY (id)
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, vacuum_truncate = off);
INSERT INTO {schema}.outbox_watermark DEFAULT VALUES;

ALTER TABLE {schema}.outbox_settings
    ADD COLUMN outbox_id  uuid NOT NULL DEFAULT gen_random_uuid(),
    ADD COLUMN generation int  NOT NULL DEFAULT 0,
    ADD COLUMN frozen_at  timestamptz,
    ADD COLUMN regressed  text;
COMMENT ON COLUMN {schema}.outbox_settings.regressed  IS 'System identifier and timeline for which generation was raised.';
COMMENT ON COLUMN {schema}.outbox_settings.outbox_id  IS 'Keeps the control subjects of several outboxes on one stream apart.';
COMMENT ON COLUMN {schema}.outbox_settings.generation IS 'Raised when the database turned out to have forgotten what was published; added to every message''s generation.';
COMMENT ON COLUMN {schema}.outbox_settings.frozen_at  IS 'For a minute from then workers give back all leases and take none; whoever froze the outbox keeps setting it.';

ALTER TABLE {schema}.outbox_partitions
    ADD COLUMN suspect   bigint,
    ADD COLUMN suspected int NOT NULL DEFAULT 0,
    ADD COLUMN crashes   int NOT NULL DEFAULT 0;
COMMENT ON COLUMN {schema}.outbox_partitions.crashes   IS 'Owners in a row whose lease ran out before they settled anything.';
COMMENT ON COLUMN {schema}.outbox_partitions.suspect   IS 'The one row that a careful owner is working on.';
COMMENT ON COLUMN {schema}.outbox_partitions.suspected IS 'Owners in a row whose lease ran out while they were working on it.';

ALTER TABLE {schema}.outbox_deliveries
    ADD COLUMN lost_after bigint,
    ADD COLUMN discarded  bigint[];
COMMENT ON COLUMN {schema}.outbox_deliveries.lost_after IS 'The stream lost what it had acknowledged above this sequence; those events were queued again.';
COMMENT ON COLUMN {schema}.outbox_deliveries.discarded  IS 'Those of skipped that an operator discarded.';

CREATE OR REPLACE VIEW {schema}.outbox_messages AS
SELECT o.global_sequence,
       o.partition_key,
       o.stream_id,
       o.topic,
       CASE WHEN o.dead_at IS NOT NULL THEN 'dead'
            WHEN o.blocked             THEN 'blocked'
            WHEN o.attempts > 0        THEN 'failed'
            ELSE 'pending' END AS state,
       o.attempts,
       o.available_at,
       NULL::timestamptz AS published_at,
       NULL::bigint      AS stream_sequence,
       o.last_error,
       o.generation
  FROM {schema}.outbox AS o
 UNION ALL
SELECT m.global_sequence,
       m.partition_key,
       e.stream_id,
       e.topic,
       CASE WHEN m.discarded               THEN 'discarded'
            WHEN m.stream_sequence IS NULL THEN 'skipped'
            ELSE 'published' END,
       m.attempts,
       NULL::timestamptz,
       m.published_at,
       m.stream_sequence,
       NULL::text,
       m.generation
  FROM (WITH superseded AS MATERIALIZED (
               SELECT jsonb_object_agg(r.sequence, r.id) AS before
                 FROM (SELECT g.sequence, max(g.id) AS id
                         FROM (SELECT k.sequence, d.id
                                 FROM {schema}.outbox_deliveries AS d
                                CROSS JOIN LATERAL jsonb_object_keys(d.generations) AS k (sequence)
                                WHERE d.generations IS NOT NULL
                                UNION ALL
                               SELECT o.global_sequence::text, 9223372036854775807
                                 FROM {schema}.outbox AS o
                                WHERE o.generation > 0) AS g
                        GROUP BY g.sequence) AS r)
        SELECT d.partition_key,
               d.published_at,
               d.lost_after,
               s.sequence AS global_sequence,
               d.discarded IS NOT NULL AND s.sequence = ANY (d.discarded) AS discarded,
               CASE WHEN d.stream_sequences IS NULL THEN d.first_stream_sequence + s.position - 1
                    ELSE s.stream_sequence END AS stream_sequence,
               CASE WHEN d.attempts IS NULL THEN 0
                    ELSE coalesce((d.attempts ->> s.sequence::text)::int, 0) END AS attempts,
               CASE WHEN d.generations IS NULL THEN 0
                    ELSE coalesce((d.generations ->> s.sequence::text)::int, 0) END AS generation
          FROM {schema}.outbox_deliveries AS d
         CROSS JOIN LATERAL unnest(
                 coalesce(d.sequences, ARRAY(SELECT generate_series(d.first_sequence, d.last_sequence))),
                 d.stream_sequences) WITH ORDINALITY AS s (sequence, stream_sequence, position)
         CROSS JOIN superseded AS u
         WHERE u.before IS NULL OR coalesce((u.before ->> s.sequence::text)::bigint <= d.id, true)) AS m
  LEFT JOIN {schema}.events AS e ON e.sequence = m.global_sequence
 WHERE m.lost_after IS NULL OR m.stream_sequence IS NULL OR m.stream_sequence <= m.lost_after;
COMMENT ON VIEW {schema}.outbox_messages IS 'States: pending, failed (will retry), blocked (behind another row), dead, published, skipped, discarded.';

-- +goose Down
DROP VIEW {schema}.outbox_messages;
CREATE VIEW {schema}.outbox_messages AS
SELECT o.global_sequence,
       o.partition_key,
       o.stream_id,
       o.topic,
       CASE WHEN o.dead_at IS NOT NULL THEN 'dead'
            WHEN o.blocked             THEN 'blocked'
            WHEN o.attempts > 0        THEN 'failed'
            ELSE 'pending' END AS state,
       o.attempts,
       o.available_at,
       NULL::timestamptz AS published_at,
       NULL::bigint      AS stream_sequence,
       o.last_error,
       o.generation
  FROM {schema}.outbox AS o
 UNION ALL
SELECT m.global_sequence,
       m.partition_key,
       e.stream_id,
       e.topic,
       CASE WHEN m.stream_sequence IS NULL THEN 'skipped' ELSE 'published' END,
       m.attempts,
       NULL::timestamptz,
       m.published_at,
       m.stream_sequence,
       NULL::text,
       m.generation
  FROM (WITH superseded AS MATERIALIZED (
               SELECT jsonb_object_agg(r.sequence, r.id) AS before
                 FROM (SELECT g.sequence, max(g.id) AS id
                         FROM (SELECT k.sequence, d.id
                                 FROM {schema}.outbox_deliveries AS d
                                CROSS JOIN LATERAL jsonb_object_keys(d.generations) AS k (sequence)
                                WHERE d.generations IS NOT NULL
                                UNION ALL
                               SELECT o.global_sequence::text, 9223372036854775807
                                 FROM {schema}.outbox AS o
                                WHERE o.generation > 0) AS g
                        GROUP BY g.sequence) AS r)
        SELECT d.partition_key,
               d.published_at,
               s.sequence AS global_sequence,
               CASE WHEN d.stream_sequences IS NULL THEN d.first_stream_sequence + s.position - 1
                    ELSE s.stream_sequence END AS stream_sequence,
               CASE WHEN d.attempts IS NULL THEN 0
                    ELSE coalesce((d.attempts ->> s.sequence::text)::int, 0) END AS attempts,
               CASE WHEN d.generations IS NULL THEN 0
                    ELSE coalesce((d.generations ->> s.sequence::text)::int, 0) END AS generation
          FROM {schema}.outbox_deliveries AS d
         CROSS JOIN LATERAL unnest(
                 coalesce(d.sequences, ARRAY(SELECT generate_series(d.first_sequence, d.last_sequence))),
                 d.stream_sequences) WITH ORDINALITY AS s (sequence, stream_sequence, position)
         CROSS JOIN superseded AS u
         WHERE u.before IS NULL OR coalesce((u.before ->> s.sequence::text)::bigint <= d.id, true)) AS m
  LEFT JOIN {schema}.events AS e ON e.sequence = m.global_sequence;
COMMENT ON VIEW {schema}.outbox_messages IS 'States: pending, failed (will retry), blocked (behind another row), dead, published, skipped.';
ALTER TABLE {schema}.outbox_deliveries DROP COLUMN lost_after, DROP COLUMN discarded;
ALTER TABLE {schema}.outbox_partitions DROP COLUMN suspect, DROP COLUMN suspected, DROP COLUMN crashes;
ALTER TABLE {schema}.outbox_settings DROP COLUMN outbox_id, DROP COLUMN generation, DROP COLUMN frozen_at, DROP COLUMN regressed;
DROP TABLE {schema}.outbox_watermark;
