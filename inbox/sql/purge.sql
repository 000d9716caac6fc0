DELETE FROM {schema}.inbox_records
 WHERE ctid = ANY (ARRAY(
       SELECT r.ctid
         FROM {schema}.inbox_records AS r
        WHERE r.recorded_at < clock_timestamp() - $2::interval
          AND EXISTS (SELECT FROM {schema}.inbox_streams AS s WHERE s.stream_key = r.stream_key AND s.consumer = $1)
        LIMIT $3))
