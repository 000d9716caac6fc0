-- The next events behind version $2 of stream $1, by stream and version: those that
-- do not follow the one before them, and the page's last one.
SELECT v.stream_id, v.stream_version, v.before, v.sequence, v.key, v.n
  FROM (SELECT p.stream_id, p.stream_version, p.sequence, p.key,
               CASE WHEN lag(p.stream_id, 1, $1::text) OVER w = p.stream_id THEN lag(p.stream_version, 1, $2::bigint) OVER w ELSE 0 END AS before,
               row_number() OVER w AS n, count(*) OVER () AS total
          FROM (SELECT e.stream_id, e.stream_version, e.sequence, coalesce({routing_key}, e.stream_id) AS key
                  FROM {events} AS e
                 WHERE (e.stream_id, e.stream_version) > ($1::text, $2::bigint)
                   AND ($4::text IS NULL OR e.stream_id = $4)
                 ORDER BY e.stream_id, e.stream_version
                 LIMIT $3) AS p
        WINDOW w AS (ORDER BY p.stream_id, p.stream_version)) AS v
 WHERE v.stream_version <> v.before + 1 OR v.n = v.total
 ORDER BY v.stream_id, v.stream_version
