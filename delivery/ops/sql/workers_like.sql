-- Workers whose id begins or ends like that, one more than are named.
SELECT w.worker_id
  FROM {schema}.outbox_workers AS w
 WHERE left(w.worker_id::text, length($1)) = $1 OR right(w.worker_id::text, length($1)) = $1
 ORDER BY w.worker_id
 LIMIT $2
