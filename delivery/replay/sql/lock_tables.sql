-- A resize locks the table before the lease rows, and so must we.
LOCK TABLE {schema}.outbox IN ROW EXCLUSIVE MODE
