UPDATE {schema}.inbox_streams AS s
   SET version = w.version, event_id = w.event_id, generation = w.generation, partition = w.partition,
       sequence = w.sequence, epoch = w.epoch, blocked = w.blocked, updated_at = clock_timestamp()
  FROM unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::integer[], $5::integer[], $6::bigint[], $7::bigint[], $8::boolean[])
       AS w (stream_key, version, event_id, generation, partition, sequence, epoch, blocked)
 WHERE s.stream_key = w.stream_key
