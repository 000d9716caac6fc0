INSERT INTO {schema}.inbox_senders (consumer, sender)
SELECT $1, $2
 WHERE NOT EXISTS (SELECT FROM {schema}.inbox_senders WHERE consumer = $1 AND sender = $2)
    ON CONFLICT DO NOTHING
