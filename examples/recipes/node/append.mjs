// State and event in one transaction, with pg: npm install && node append.mjs <../events.jsonl
import readline from "node:readline";
import pg from "pg";

const STATE = `INSERT INTO recipe_orders VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET status = excluded.status`;
const ONE = `SELECT outbox_append($1, $2, $3, topic => $4, partition_key => $5, expected_version => $6)`;
// The function for many publishes bytes as they are and tells new from duplicate, as outbox_append_one_bytes does without the partition.
const MANY = `SELECT sequence, partition_key, duplicate FROM outbox_append_batch(ARRAY[$1], ARRAY[$2], ARRAY[$3::bytea],
  topics => ARRAY[$4], partition_keys => ARRAY[$5], expected_versions => ARRAY[$6::bigint], dedupe_keys => ARRAY[$7])`;

const client = new pg.Client(process.env.DATABASE_URL);
await client.connect();
for await (const line of readline.createInterface({ input: process.stdin })) {
  // Here the payload is a text that holds JSON. Pass such a text as it is, an object through JSON.stringify: pg makes an
  // array of PostgreSQL of an array, and JSON.parse rounds integers beyond 2^53.
  const { stream, type, payload, topic, key, expected, message } = JSON.parse(line);
  await client.query("BEGIN");
  try {
    await client.query(STATE, [stream, type]);
    const { rows: [appended] } = message === undefined
      ? await client.query(ONE, [stream, type, payload, topic, key, expected])
      : await client.query(MANY, [stream, type, Buffer.from(payload), topic, key, expected, message]);
    if (process.argv[2] === "rollback") throw new Error("asked to roll back");
    await client.query("COMMIT");
    console.log(Object.values(appended).join(" ")); // a sequence is a bigint, which pg gives as a string
  } catch (error) {
    await client.query("ROLLBACK");
    if (error.code !== "OB001") throw error;
    console.log("OB001"); // the stream has another version than expected
  }
}
await client.end();
