-- How many selected events operators skipped or discarded.
SELECT count(*)
  FROM (SELECT DISTINCT {unwanted} AND u.sequence::bigint > $2 AND u.sequence::bigint <= $3) AS unwanted
  JOIN {events} AS e USING (sequence)
 WHERE $1::bigint IS NULL AND {match}
