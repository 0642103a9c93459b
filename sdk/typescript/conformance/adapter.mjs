// The adapter for the conformance kit: reads commands as lines of JSON, and writes answers as lines of JSON.

import { createInterface } from "node:readline";
import { Client, KentError, RpcFailure } from "kent-client";

const can = ["try_next", "take", "fetch", "threads", "xid", "tls", "token_file", "heirs"];

/** @type {Client | undefined} */
let client;

function source(name) {
  if (client === undefined) {
    throw new Error("no client is open");
  }
  return client.source(name); // The client keeps one handle for each name.
}

function open(command) {
  client = new Client(command.endpoints, {
    attemptTimeoutMs: command.attempt_timeout_ms,
    requestTimeoutMs: command.request_timeout_ms,
    blockSize: command.block_size,
    blockSizeMax: command.block_size_max,
    lowWater: command.low_water,
    maxAgeMs: command.max_age_ms,
    followHeirs: command.follow_heirs,
    ca: command.ca,
    cert: command.cert,
    key: command.key,
    token: command.token,
    tokenFile: command.token_file,
  });
}

async function next(command, ids) {
  const handle = source(command.source);
  const task = async () => {
    for (let count = 0; count < (command.count ?? 1); count++) {
      ids.push(await handle.next({ timeoutMs: command.timeout_ms }));
    }
  };
  await Promise.all(Array.from({ length: command.threads ?? 1 }, task));
}

/** Appends identifiers one by one, because `ids.push(...more)` fails for more than about 100,000 arguments. */
function append(ids, more) {
  for (const id of more) {
    ids.push(id);
  }
}

async function run(command, ids) {
  switch (command.do) {
    case "open":
      return open(command);
    case "next":
      return next(command, ids);
    case "try_next": {
      const id = source(command.source).tryNext();
      return id === undefined ? undefined : ids.push(id);
    }
    case "take":
      return append(ids, await source(command.source).take(command.count, { timeoutMs: command.timeout_ms }));
    case "fetch": {
      const options = { requestId: command.request_id, timeoutMs: command.timeout_ms };
      return append(ids, await source(command.source).fetch(command.count, options));
    }
    case "close":
      return client?.close();
    default:
      throw new Error(`unknown command ${command.do}`);
  }
}

function described(error) {
  if (!(error instanceof KentError)) {
    return { kind: "unusable", message: String(error) };
  }
  const { kind, message } = error;
  if (!(error instanceof RpcFailure)) {
    return { kind, message };
  }
  const { code, reason, metadata, fields, retryAfterMs } = error;
  return { kind, code, reason, metadata, fields, retry_after_ms: retryAfterMs, message };
}

async function answer(command) {
  const ids = [];
  const reply = { id: command.id };
  try {
    await run(command, ids);
  } catch (error) {
    reply.error = described(error);
  }
  if (command.do !== "open" && command.do !== "close") {
    reply.ids = ids.map(String);
  }
  print(reply);
}

function print(reply) {
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}

print({ hello: { language: "typescript", can } });
const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => void answer(JSON.parse(line)));
lines.on("close", () => {
  client?.close();
  // The process exits once all output is written.
  process.stdout.write("", () => process.exit(0));
});
