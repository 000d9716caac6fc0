// Each message's effect once, with pg and the inbox's SQL functions (docs/inbox-protocol.md).
// Messages come as JSON lines, as ../../inboxtest hands them over; with a NATS client, deal gets the same parts.
import { randomUUID } from "node:crypto";
import readline from "node:readline";
import pg from "pg";

const name = process.env.INBOX_CONSUMER, self = randomUUID();
const BEGIN = `SELECT verdict FROM inbox_begin($1, $2, $3, $4, $5, parked => $6)`;
const FAILED = `SELECT inbox_failed($1, $2, $3, $4, $5, parked => $6, reason => $7)`;
const NEXT = `SELECT parked, subject, stream_sequence, headers, payload FROM inbox_next($1, $2)`;

const client = new pg.Client(process.env.DATABASE_URL);
await client.connect();

async function effect({ headers }) { // yours: all through client, and an error where it fails
  const { rows: [{ failed }] } = await client.query(`SELECT inboxtest_effect($1, $2, $3) AS failed`,
    [headers["Outbox-Stream"], headers["Outbox-Stream-Version"], headers["Outbox-Event-Id"]]);
  if (failed) throw new Error("the effect failed");
}

// Returns when the message may be acknowledged. After an error it must come again, before any later one.
async function deal(message, parked) {
  const { subject, stream_sequence, headers, payload } = message;
  const args = [name, subject, stream_sequence, JSON.stringify(headers), payload, parked];
  await client.query("BEGIN");
  try {
    const { rows: [{ verdict }] } = await client.query(BEGIN, args);
    if (verdict === "run") await effect(message);
    await client.query("COMMIT");
  } catch (error) {
    await client.query("ROLLBACK");
    if (/^(08|40|53|57|58)/.test(error.code)) throw error; // the database is away, or there was a deadlock: not the message's fault
    await client.query(FAILED, [...args, String(error)]);
  }
}

async function retry() {
  for (let rows; ({ rows } = await client.query(NEXT, [name, self])) && rows.length > 0;) await deal(rows[0], rows[0].parked);
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  if (request.retry) await retry();
  else await deal({ ...request, payload: Buffer.from(request.payload ?? "", "base64") }, null);
  console.log(JSON.stringify({ id: request.id, ack: true }));
}
await client.end();
