-- The handler did not end its process: that it was begun does not count.
UPDATE {schema}.inbox_parked SET begun = begun - 1, begun_by = NULL, due_at = clock_timestamp()
 WHERE parked_id = $1 AND begun = $2 AND begun_by = $3
