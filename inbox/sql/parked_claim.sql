-- The first parked message of a stream, when it is due. It is marked as begun before the handler runs, and due again later,
-- should nobody come back from that; one that comes back says so. SKIP LOCKED: somebody else is at it.
UPDATE {schema}.inbox_parked AS p
   SET begun = CASE WHEN p.begun_by = $2 THEN p.begun ELSE p.begun + 1 END, begun_by = $2,
       due_at = clock_timestamp() + make_interval(secs => least($3::float8, $4::float8 * power($5::float8, least(p.begun, 50))))
  FROM (SELECT d.parked_id
          FROM {schema}.inbox_parked AS d
          JOIN {schema}.inbox_streams AS s USING (stream_key)
         WHERE d.consumer = $1 AND d.due_at <= clock_timestamp()
           AND NOT EXISTS (SELECT FROM {schema}.inbox_parked AS e
                            WHERE e.stream_key = d.stream_key AND (e.version, e.parked_id) < (d.version, d.parked_id))
         ORDER BY d.due_at
         LIMIT 1
           FOR NO KEY UPDATE OF s SKIP LOCKED) AS head
 WHERE p.parked_id = head.parked_id AND p.due_at <= clock_timestamp()
RETURNING p.stream_key, p.parked_id, p.begun
