// The handler of graphile-worker: what measure.ServeHandler does, in lines of JSON over standard input and output.
import { createInterface } from "node:readline";
import { Logger, run } from "graphile-worker";

const stallPatience = 15_000; // ms without a receipt, after which it reports what it has
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const line = async () => {
  const { value, done } = await lines.next();
  return done ? undefined : JSON.parse(value);
};
const answer = (value) => process.stdout.write(JSON.stringify(value) + "\n");

// The machine's clock in milliseconds, finer than Date.now() tells it. It does not follow a clock that is set later.
const now = () => performance.timeOrigin + performance.now();

const received = []; // the names are those of the protocol
const seen = new Set();
let goal = Infinity;
let reached = () => {};

const settings = await line();
const batches = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
const runner = await run({
  preset: {
    worker: {
      connectionString: settings.database,
      concurrentJobs: 24,
      maxPoolSize: 25,
      ...(process.argv[2] === "local" ? batches : {}),
    },
  },
  logger: new Logger(() => (level, message) => {
    if (level === "error" || level === "warning") process.stderr.write(message + "\n");
  }),
  noHandleSignals: true,
  taskList: {
    handled: ({ id }) => {
      received.push({ id, at: Math.round(now() * 1e6) });
      seen.add(id);
      if (seen.size >= goal) reached();
    },
  },
});
answer({ ready: true });

for (let task = await line(); task; task = await line()) {
  await new Promise((resolve) => {
    let before = received.length;
    const stalled = setInterval(() => {
      if (received.length === before) reached();
      before = received.length;
    }, stallPatience);
    reached = () => {
      clearInterval(stalled);
      resolve();
    };
    goal = task.expect;
    if (seen.size >= goal) reached();
  });
  if (Math.abs(now() - Date.now()) > 2) {
    process.stderr.write("the clock was set meanwhile\n");
    process.exit(1);
  }
  answer({ received });
}
await runner.stop();
process.exit(0);
