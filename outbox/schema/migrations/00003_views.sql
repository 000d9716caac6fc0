-- What people ask of the outbox.

-- +goose Up
-- One row per event that the outbox knows. Published rows are unnested from the
-- history and joined from the outside, so that count(*) never touches events.
-- A row that was replayed stands in the history twice, or in the queue again: its
-- earlier deliveries are left out. Which these are is looked up in one JSON object,
-- NULL while nothing was replayed; as an anti join the planner, which cannot know
-- what is in the arrays, makes it quadratic.
CREATE VIEW {schema}.outbox_messages AS
SELECT o.global_sequence,
       o.partition_key,
       o.stream_id,
       o.topic,
       {schema}.outbox_state(o.dead_at, o.blocked, o.attempts, o.parked, o.available_at, o.scheduled_for) AS state,
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

-- +goose Down
DROP VIEW {schema}.outbox_messages;
