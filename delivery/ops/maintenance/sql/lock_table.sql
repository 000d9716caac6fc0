-- A resize locks the table before the lease rows, and so must all others.
LOCK TABLE {schema}.outbox IN ROW EXCLUSIVE MODE
