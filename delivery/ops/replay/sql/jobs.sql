-- Replays with a number below $1, or the one of number $2; the newest first.
SELECT r.id, r.kind, r.destination, r.state, r.actor, coalesce(r.reason, ''), r.selection, coalesce(r.prefix, ''), coalesce(r.stream, ''),
       r.position, r.last_sequence, r.selected, r.replayed, r.gone, r.failed, r.stream_sequence, r.generation,
       r.created_at, r.updated_at, r.finished_at, coalesce(r.waiting_for, ''), coalesce(r.last_error, ''),
       clock_timestamp() - r.updated_at, r.expected
  FROM {schema}.outbox_replays AS r
 WHERE ($1::bigint IS NULL OR r.id < $1) AND ($2::bigint IS NULL OR r.id = $2)
 ORDER BY r.id DESC
 LIMIT $3
