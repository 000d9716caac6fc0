# State and event in one transaction, with pg: ruby append.rb <../events.jsonl
require "json"
require "pg"

STATE = "INSERT INTO recipe_orders VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET status = excluded.status"
ONE = "SELECT outbox_append($1, $2, $3, topic => $4, partition_key => $5, expected_version => $6)"
# The function for many publishes bytes as they are and tells new from duplicate, as outbox_append_one_bytes does without the partition.
MANY = <<~SQL
  SELECT sequence, partition_key, duplicate FROM outbox_append_batch(ARRAY[$1], ARRAY[$2], ARRAY[$3::bytea],
    topics => ARRAY[$4], partition_keys => ARRAY[$5], expected_versions => ARRAY[$6::bigint], dedupe_keys => ARRAY[$7])
SQL

conn = PG.connect(ENV.fetch("DATABASE_URL"))
conn.type_map_for_results = PG::BasicTypeMapForResults.new(conn) # without it each value is a text: "f" for false
$stdin.set_encoding("UTF-8").each_line do |line| # whatever the locale says
  # Here the payload is a text that holds JSON. Pass such a text as it is, a hash through JSON.generate.
  stream, type, payload, topic, key, expected, message =
    JSON.parse(line).values_at("stream", "type", "payload", "topic", "key", "expected", "message")
  appended = conn.transaction do
    conn.exec_params(STATE, [stream, type])
    result = if message
               bytes = { value: payload, format: 1 } # binary, as a text ends at a zero byte
               conn.exec_params(MANY, [stream, type, bytes, topic, key, expected, message])
             else
               conn.exec_params(ONE, [stream, type, payload, topic, key, expected])
             end
    raise "asked to roll back" if ARGV == ["rollback"]

    result.values.first
  end
  puts appended.join(" ")
rescue PG::ServerError => e
  raise unless e.result.error_field(PG::PG_DIAG_SQLSTATE) == "OB001"

  puts "OB001" # the stream has another version than expected
end
