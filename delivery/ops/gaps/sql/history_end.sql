-- The last batch of the page that history.sql reads, and whether there is one.
SELECT max(p.id), count(*)
  FROM (SELECT h.id
          FROM {schema}.outbox_deliveries AS h
         WHERE h.id > $1 AND h.first_sequence <= $3 AND h.last_sequence >= $2
         ORDER BY h.id
         LIMIT $4) AS p
