UPDATE {schema}.inbox_parked
   SET state = $2, attempts = $3, due_at = clock_timestamp() + $4::interval, reason = $5
 WHERE parked_id = $1
