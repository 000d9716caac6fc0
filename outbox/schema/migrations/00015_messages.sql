-- Scheduled messages, the failures of a message, and headers.
--
-- The time of a retry overwrites available_at, so the time for which an event was
-- scheduled has a column of its own: latency counts from it.

-- +goose Up
ALTER TABLE {schema}.outbox ADD COLUMN scheduled_for timestamptz;
COMMENT ON COLUMN {schema}.outbox.scheduled_for IS 'The time before which its producer, or an operator, does not want it published; NULL: none was given.';
UPDATE {schema}.outbox_parked SET scheduled_for = available_at
 WHERE NOT blocked AND dead_at IS NULL AND attempts = 0 AND generation = 0 AND available_at > clock_timestamp();

ALTER TABLE {schema}.outbox ADD COLUMN failures jsonb;
COMMENT ON COLUMN {schema}.outbox.failures IS 'The last ten attempts that failed, the oldest first: [{"at", "worker_id", "class", "text"}]; NULL: none did.';

ALTER TABLE {schema}.outbox_deliveries ADD COLUMN scheduled jsonb;
COMMENT ON COLUMN {schema}.outbox_deliveries.scheduled IS '{"sequence": time} for rows that were scheduled.';

-- What waits for its time is a state of its own. (clock_timestamp() would keep the
-- planner from looking into the view.)
CREATE OR REPLACE VIEW {schema}.outbox_messages AS
SELECT o.global_sequence,
       o.partition_key,
       o.stream_id,
       o.topic,
       CASE WHEN o.dead_at IS NOT NULL THEN 'dead'
            WHEN o.blocked             THEN 'blocked'
            WHEN o.attempts > 0        THEN 'failed'
            WHEN o.parked AND o.available_at > statement_timestamp() THEN 'scheduled'
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
COMMENT ON VIEW {schema}.outbox_messages IS 'States: pending, scheduled (waits for its time), failed (will retry), blocked (behind another row), dead, published, skipped, discarded.';

-- The append functions note it. Their texts are edited where they stand, as in 00008.
-- +goose StatementBegin
DO $migration$
DECLARE
    edit record;
    text text;
BEGIN
    FOR edit IN
        SELECT f.name, f.before, f.after
          FROM (VALUES
                ('outbox_append_event',
                 E'outbox_parked (global_sequence, partition_key, parked, available_at, stream_id, topic)\n',
                 E'outbox_parked (global_sequence, partition_key, parked, available_at, scheduled_for, stream_id, topic)\n'),
                ('outbox_append_event', 'true, not_before, new_stream', 'true, not_before, not_before, new_stream'),
                ('outbox_append_batch',
                 E'outbox_parked (global_sequence, partition_key, parked, available_at, stream_id, topic)\n',
                 E'outbox_parked (global_sequence, partition_key, parked, available_at, scheduled_for, stream_id, topic)\n'),
                ('outbox_append_batch', 'true, i.not_before, i.stream', 'true, i.not_before, i.not_before, i.stream'),
                -- Values of headers hold no control characters of ISO 6429 (C1) either.
                ('outbox_metadata_problem', '\\u001f\\u007f]', '\\u001f\\u007f-\\u009f]')) AS f (name, before, after)
    LOOP
        SELECT pg_get_functiondef(p.oid) INTO STRICT text
          FROM pg_proc AS p
         WHERE p.pronamespace = (SELECT c.relnamespace FROM pg_class AS c WHERE c.oid = '{schema}.outbox'::regclass)
           AND p.proname = edit.name;
        IF strpos(text, edit.before) = 0 THEN
            RAISE EXCEPTION 'function % is not the one that this migration knows', edit.name;
        END IF;
        EXECUTE replace(text, edit.before, edit.after);
    END LOOP;
END
$migration$;
-- +goose StatementEnd

-- +goose Down
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
-- +goose StatementBegin
DO $migration$
DECLARE
    edit record;
    text text;
BEGIN
    FOR edit IN
        SELECT f.name, f.added, f.before
          FROM (VALUES
                ('outbox_append_event', 'available_at, scheduled_for, stream_id', 'available_at, stream_id'),
                ('outbox_append_event', 'true, not_before, not_before, new_stream', 'true, not_before, new_stream'),
                ('outbox_append_batch', 'available_at, scheduled_for, stream_id', 'available_at, stream_id'),
                ('outbox_append_batch', 'true, i.not_before, i.not_before, i.stream', 'true, i.not_before, i.stream'),
                ('outbox_metadata_problem', '\\u001f\\u007f-\\u009f]', '\\u001f\\u007f]')) AS f (name, added, before)
    LOOP
        SELECT pg_get_functiondef(p.oid) INTO STRICT text
          FROM pg_proc AS p
         WHERE p.pronamespace = (SELECT c.relnamespace FROM pg_class AS c WHERE c.oid = '{schema}.outbox'::regclass)
           AND p.proname = edit.name;
        EXECUTE replace(text, edit.added, edit.before);
    END LOOP;
END
$migration$;
-- +goose StatementEnd
ALTER TABLE {schema}.outbox_deliveries DROP COLUMN scheduled;
ALTER TABLE {schema}.outbox DROP COLUMN failures, DROP COLUMN scheduled_for;
