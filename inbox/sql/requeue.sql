UPDATE {schema}.inbox_parked
   SET state = 'failed', attempts = 0, begun = 0, begun_by = NULL, due_at = clock_timestamp()
 WHERE consumer = $1 AND state = 'dead' AND ($2::uuid[] IS NULL OR event_id = ANY ($2::uuid[]))
