-- $1: a state or NULL; the dead first, then what is due first.
SELECT stream_id, state, applied_version, expected_version, wanted_version, attempts, due_at, dead_at, applied_at,
       lease_owner, lease_until, coalesce(last_error, '')
  FROM (SELECT *, CASE WHEN dead_at IS NOT NULL THEN 'dead'
                       WHEN lease_until > statement_timestamp() THEN 'processing'
                       WHEN due_at IS NULL THEN 'current'
                       WHEN attempts > 0 OR last_error IS NOT NULL THEN 'failed'
                       ELSE 'pending' END AS state
          FROM {schema}.projection_streams) AS s
 WHERE $1::text IS NULL OR state = $1
 ORDER BY dead_at NULLS LAST, due_at NULLS LAST, stream_id
 LIMIT $2
