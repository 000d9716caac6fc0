-- The next message of the stream is due now; without one the stream waits no more.
WITH next AS (
    SELECT parked_id, state FROM {schema}.inbox_parked
     WHERE stream_key = $1 AND parked_id <> $2
     ORDER BY version, parked_id
     LIMIT 1
), due AS (
    UPDATE {schema}.inbox_parked AS p SET due_at = clock_timestamp()
      FROM next
     WHERE p.parked_id = next.parked_id AND next.state = 'waiting'
)
UPDATE {schema}.inbox_streams SET blocked = EXISTS (SELECT FROM next), updated_at = clock_timestamp()
 WHERE stream_key = $1
