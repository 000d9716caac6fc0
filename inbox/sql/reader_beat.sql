INSERT INTO {schema}.inbox_readers (consumer, reader, hostname, pid, alive_until)
VALUES ($1, $2, $3, $4, clock_timestamp() + $5::interval)
    ON CONFLICT (consumer, reader) DO UPDATE SET alive_until = EXCLUDED.alive_until
