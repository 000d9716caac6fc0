-- Whether anything is parked in the partitions asked for. While nothing is parked at
-- all, that is one look at an empty index, and not one for each partition.
(SELECT EXISTS (SELECT FROM {schema}.outbox_parked))
   AND (SELECT EXISTS (SELECT FROM {schema}.outbox_parked AS any_parked
                        WHERE any_parked.partition_key = ANY ($1::smallint[])))
