SELECT generation, call_id, failed, coalesce(reason, ''), result
  FROM {schema}.inbox_senders
 WHERE consumer = $1 AND sender = $2
   FOR NO KEY UPDATE
