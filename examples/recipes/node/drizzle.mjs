// State and event in one transaction, with Drizzle: npm install && node drizzle.mjs <../events.jsonl
import readline from "node:readline";
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { pgTable, text } from "drizzle-orm/pg-core";

const orders = pgTable("recipe_orders", { name: text().primaryKey(), status: text().notNull() });

// Drizzle leaves undefined out of the statement, hence the defaults, and writes an array as a list, hence ARRAY[].
const one = ({ stream, type, payload, topic = null, key = null, expected = null }) => sql`SELECT outbox_append(
  ${stream}, ${type}, ${payload}, topic => ${topic}, partition_key => ${key}, expected_version => ${expected})`;
// The function for many publishes bytes as they are and tells new from duplicate, as outbox_append_one_bytes does without the partition.
const many = ({ stream, type, payload, topic = null, key = null, expected = null, message }) => sql`
  SELECT sequence, partition_key, duplicate FROM outbox_append_batch(
    ARRAY[${stream}], ARRAY[${type}], ARRAY[${Buffer.from(payload)}::bytea], topics => ARRAY[${topic}],
    partition_keys => ARRAY[${key}], expected_versions => ARRAY[${expected}::bigint], dedupe_keys => ARRAY[${message}])`;

const db = drizzle(process.env.DATABASE_URL);
for await (const line of readline.createInterface({ input: process.stdin })) {
  const event = JSON.parse(line); // its payload is a text that holds JSON; pass an object through JSON.stringify
  const state = { name: event.stream, status: event.type };
  try {
    const appended = await db.transaction(async (tx) => {
      await tx.insert(orders).values(state).onConflictDoUpdate({ target: orders.name, set: state });
      const { rows } = await tx.execute(event.message === undefined ? one(event) : many(event));
      if (process.argv[2] === "rollback") throw new Error("asked to roll back");
      return rows[0];
    });
    console.log(Object.values(appended).join(" ")); // a sequence is a bigint, which pg gives as a string
  } catch (error) {
    if (error.cause?.code !== "OB001") throw error;
    console.log("OB001"); // the stream has another version than expected
  }
}
await db.$client.end();
