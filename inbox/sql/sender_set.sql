UPDATE {schema}.inbox_senders
   SET generation = $3, call_id = $4, failed = $5, reason = $6, result = $7, updated_at = clock_timestamp()
 WHERE consumer = $1 AND sender = $2
