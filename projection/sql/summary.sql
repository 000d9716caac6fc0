SELECT count(*) FILTER (WHERE dead_at IS NULL AND due_at IS NULL),
       count(*) FILTER (WHERE dead_at IS NULL AND due_at IS NOT NULL AND (lease_until IS NULL OR lease_until <= statement_timestamp())
                          AND attempts = 0 AND last_error IS NULL),
       count(*) FILTER (WHERE dead_at IS NULL AND lease_until > statement_timestamp()),
       count(*) FILTER (WHERE dead_at IS NULL AND due_at IS NOT NULL AND (lease_until IS NULL OR lease_until <= statement_timestamp())
                          AND (attempts > 0 OR last_error IS NOT NULL)),
       count(*) FILTER (WHERE dead_at IS NOT NULL),
       least(coalesce(sum(wanted_version - applied_version) FILTER (WHERE wanted_version > applied_version), 0), 9223372036854775807)::bigint,
       least(coalesce(sum(wanted_version - applied_version) FILTER (WHERE dead_at IS NOT NULL AND wanted_version > applied_version), 0), 9223372036854775807)::bigint,
       min(dead_at),
       coalesce(extract(epoch FROM clock_timestamp() - min(dead_at)), 0)::float8,
       coalesce(extract(epoch FROM clock_timestamp() - min(due_at) FILTER (WHERE due_at <= statement_timestamp())), 0)::float8
  FROM {schema}.projection_streams
