UPDATE {schema}.inbox_parked
   SET state = $2, attempts = $3, due_at = clock_timestamp() + $4::interval, reason = $5, begun = 0, begun_by = NULL
 WHERE parked_id = $1
