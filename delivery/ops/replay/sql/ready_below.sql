SELECT EXISTS (SELECT FROM {schema}.outbox AS o WHERE NOT o.parked AND o.partition_key = ANY ($1::smallint[]) AND o.global_sequence <= $2)
