SELECT {schema}.outbox_without_enqueue()
