// Tests the client against a scripted daemon, for replies that a real daemon gives only rarely.

import assert from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type handleUnaryCall, Metadata, Server, ServerCredentials, type ServiceError, status } from "@grpc/grpc-js";
import { Client, type ClientOptions, Closed, Fenced, Limited, Refused, Unavailable, Unusable } from "kent-client";
import {
  type AllocateRequest,
  AllocateResponse,
  AllocatorService,
  ErrorInfo,
  RetryInfo,
  RpcStatus,
} from "kent-client/v1";
import { scratch } from "./daemon.mjs";

type Answer = (request: AllocateRequest) => AllocateResponse | Error | Promise<AllocateResponse>;

/** A grant of the requested number of identifiers, starting at `first`. */
function granted(first: bigint, { token = 1n, count = 0 } = {}): Answer {
  return (request) => {
    const data = Buffer.alloc(8 * (count || Number(request.count)));
    for (let at = 0; at < data.length; at += 8) {
      data.writeBigUInt64BE(first + BigInt(at / 8), at);
    }
    const value = { width: 8, data, fenceSubject: 1n, fenceToken: token };
    return AllocateResponse.create({ identifiers: { $case: "packed", value } });
  };
}

/** A grant of identifiers as text. Like the daemon, it allows at most 10,000. */
const texts: Answer = (request) => {
  assert.ok(request.count <= 10_000n);
  const ids = Array.from({ length: Number(request.count) }, (_, index) => `${index}`);
  return AllocateResponse.create({ identifiers: { $case: "text", value: { ids } } });
};

function refused(code: status, reason: string, retryMs?: number, metadata: Record<string, string> = {}): Answer {
  const any = (name: string, value: Uint8Array) => ({
    typeUrl: `type.googleapis.com/google.rpc.${name}`,
    value: Buffer.from(value),
  });
  const details = [];
  if (reason !== "") {
    details.push(any("ErrorInfo", ErrorInfo.encode({ reason, domain: "kent", metadata }).finish()));
  }
  if (retryMs !== undefined) {
    const retryDelay = { seconds: BigInt(Math.floor(retryMs / 1000)), nanos: (retryMs % 1000) * 1e6 };
    details.push(any("RetryInfo", RetryInfo.encode({ retryDelay }).finish()));
  }
  const trailer = new Metadata();
  trailer.set("grpc-status-details-bin", Buffer.from(RpcStatus.encode(RpcStatus.create({ code, details })).finish()));
  return () => Object.assign(new Error(), { code, details: "scripted", metadata: trailer }) as ServiceError;
}

const never: Answer = () => new Promise<never>(() => undefined);
/** The daemon commits, and the connection breaks before the reply arrives. */
const lost = refused(status.UNAVAILABLE, "");
const away = refused(status.UNAVAILABLE, "STORE");

class Script {
  readonly sources: string[] = [];
  readonly times: number[] = [];
  readonly headers: unknown[] = [];
  address = "";

  static async start(t: TestContext, ...answers: Answer[]): Promise<Script> {
    const script = new Script();
    const server = new Server();
    const allocate: handleUnaryCall<AllocateRequest, AllocateResponse> = async (call, done) => {
      script.sources.push(call.request.source);
      script.times.push(performance.now());
      script.headers.push(call.metadata.get("authorization")[0]);
      const answer = answers.length > 1 ? answers.shift() : answers[0];
      const reply = await (answer ?? never)(call.request);
      reply instanceof Error ? done(reply) : done(null, reply);
    };
    server.addService(AllocatorService, { allocate, allocateStream: () => undefined });
    const port = await new Promise<number>((resolve, reject) => {
      server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
        error === null ? resolve(bound) : reject(error),
      );
    });
    t.after(() => server.forceShutdown());
    script.address = `127.0.0.1:${port}`;
    return script;
  }
}

function client(t: TestContext, scripts: Script[], options: ClientOptions = {}): Client {
  const made = new Client(
    scripts.map((script) => script.address),
    { lowWater: 0, ...options },
  );
  t.after(() => made.close());
  return made;
}

test("ok: the delay of a limit is waited for on the same daemon", async (t) => {
  const script = await Script.start(t, refused(status.RESOURCE_EXHAUSTED, "PACE", 300), granted(7n));
  const other = await Script.start(t);
  assert.equal(await client(t, [script, other]).region("r").next(), 7n);
  const [first = 0, second = 0] = script.times;
  assert.ok(second - first >= 299, `${second - first}`);
  assert.deepEqual(other.sources, []);
});

test("err: a limit that lasts longer than the timeout is reported at once", async (t) => {
  const script = await Script.start(t, refused(status.RESOURCE_EXHAUSTED, "LIMIT", 60_500, { limit: "ids" }));
  const began = performance.now();
  await assert.rejects(client(t, [script]).region("r").next(), (error) => {
    assert.ok(error instanceof Limited && error.kind === "limited" && error.isRetryable);
    assert.deepEqual([error.retryAfterMs, error.metadata], [60_500, { limit: "ids" }]);
    return true;
  });
  assert.ok(performance.now() - began < 5000);
});

test("err: a caller with a shorter timeout than the fetch in progress is informed of the limit", async (t) => {
  const script = await Script.start(t, refused(status.RESOURCE_EXHAUSTED, "LIMIT", 5000));
  await assert.rejects(client(t, [script]).region("r").next({ timeoutMs: 200 }), Limited);
});

test("err: a full region is not asked again", async (t) => {
  const script = await Script.start(t, refused(status.RESOURCE_EXHAUSTED, "CAPACITY_EXHAUSTED"));
  await assert.rejects(client(t, [script]).region("r").next(), { kind: "refused", reason: "CAPACITY_EXHAUSTED" });
  assert.equal(script.sources.length, 1);
});

test("ok: after an unavailable daemon, the next one is used", async (t) => {
  const [script, other] = [await Script.start(t, away), await Script.start(t, granted(1n))];
  assert.equal(await client(t, [script, other]).region("r").next(), 1n);
});

test("ok: a lost reply leaves a gap", async (t) => {
  const script = await Script.start(t, granted(1n), lost, granted(2001n));
  assert.deepEqual(await client(t, [script]).region("r").take(2), [1n, 2n]);
  assert.deepEqual(await client(t, [script], { blockSize: 1 }).region("r").take(2), [2001n, 2002n]);
});

test("ok: INTERNAL without a reason is a broken connection, with one it is final", async (t) => {
  const script = await Script.start(t, refused(status.INTERNAL, ""), granted(3n));
  assert.equal(await client(t, [script]).region("r").next(), 3n);
  const broken = await Script.start(t, refused(status.INTERNAL, "BROKEN"));
  await assert.rejects(client(t, [broken]).region("r").next(), Refused);
});

test("ok: the heir of a closed region is followed if followHeirs is set", async (t) => {
  const closed = refused(status.FAILED_PRECONDITION, "CLOSED", undefined, { heir: "region:r-zero" });
  const script = await Script.start(t, closed, granted(5n));
  const source = client(t, [script], { followHeirs: true }).region("r");
  assert.equal(await source.next(), 5n);
  assert.deepEqual([script.sources, source.name], [["region:r", "region:r-zero"], "region:r-zero"]);
  const other = await Script.start(t, closed);
  await assert.rejects(client(t, [other]).region("r").next(), { heir: "region:r-zero" });
  await assert.rejects(client(t, [other], { followHeirs: true }).region("r").next(), Unusable);
  const strict = client(t, [other], { followHeirs: true }).region("r").fetch(1, { requestId: "r" });
  await assert.rejects(strict, { heir: "region:r-zero" });
});

test("ok: an older block is rejected", async (t) => {
  const answers = [granted(1n, { token: 5n }), granted(50n, { token: 4n }), granted(90n, { token: 5n })];
  const source = client(t, [await Script.start(t, ...answers)]).region("r");
  assert.deepEqual(
    [await source.take(2), await source.take(2)],
    [
      [1n, 2n],
      [90n, 91n],
    ],
  );
});

test("ok: a repeated strict grant may be older", async (t) => {
  const script = await Script.start(t, granted(9n, { token: 5n }), granted(1n, { token: 4n }));
  const source = client(t, [script]).region("r");
  await source.next();
  assert.deepEqual(await source.fetch(2, { requestId: "r" }), [1n, 2n]);
});

test("err: many older blocks in a row", async (t) => {
  const script = await Script.start(t, granted(1n, { token: 5n }), granted(50n, { token: 4n }));
  const source = client(t, [script], { requestTimeoutMs: 60_000 }).region("r");
  await source.take(1);
  await assert.rejects(source.take(1), Fenced);
});

test("err: a reply with too many identifiers or none is not used", async (t) => {
  for (const answer of [granted(1n, { count: 1001 }), () => AllocateResponse.create()]) {
    await assert.rejects(
      client(t, [await Script.start(t, answer)])
        .region("r")
        .next(),
      Unusable,
    );
  }
});

test("ok: more identifiers than one reply may have", async (t) => {
  const script = await Script.start(t, texts);
  assert.equal((await client(t, [script]).xid().take(50_000)).length, 50_000);
  assert.equal(script.sources.length, 5);
});

test("ok: a slow daemon is hidden by the fetch ahead", async (t) => {
  const slow: Answer = async (request) => {
    await sleep(200);
    return granted(2000n)(request) as AllocateResponse;
  };
  const script = await Script.start(t, granted(0n), slow);
  const options = { blockSize: 100, blockSizeMax: 100, lowWater: 0.5 };
  const source = client(t, [script], options).region("r");
  await source.next();
  for (let value = 1n; value < 60n; value++) {
    assert.equal(source.tryNext(), value);
  }
  await sleep(400);
  for (let value = 60n; value < 100n; value++) {
    assert.equal(source.tryNext(), value);
  }
  assert.equal(source.tryNext(), 2000n);
});

test("ok: a loop of next lets the reply arrive before the stock is used up", async (t) => {
  const script = await Script.start(t, granted(0n), granted(100_000n));
  const options = { blockSize: 50_000, blockSizeMax: 50_000, lowWater: 0.5 };
  const source = client(t, [script], options).region("r");
  for (let count = 0; count < 49_000; count++) {
    await source.next();
  }
  assert.equal(source.inHand, 51_000);
});

test("err: the deadline is kept, and the endpoint is named", async (t) => {
  const script = await Script.start(t, never);
  const began = performance.now();
  const made = client(t, [script], { attemptTimeoutMs: 100, requestTimeoutMs: 500 });
  await assert.rejects(made.region("r").next(), (error) => {
    assert.ok(error instanceof Unavailable && error.tried.has(script.address), String(error));
    return error.message.includes("DEADLINE_EXCEEDED");
  });
  assert.ok(performance.now() - began < 2000);
  await assert.rejects(made.region("s").next({ timeoutMs: 50 }), Unavailable);
});

test("ok: a caller that waits longer than the fetch of another makes its own", async (t) => {
  const script = await Script.start(t, away, away, away, away, away, away, granted(8n));
  const source = client(t, [script], { requestTimeoutMs: 150 }).region("r");
  assert.equal(source.tryNext(), undefined);
  assert.equal(await source.next({ timeoutMs: 20_000 }), 8n);
});

test("ok: many tasks share one fetch", async (t) => {
  const script = await Script.start(t, granted(0n));
  const source = client(t, [script], { blockSize: 64 }).region("r");
  const ids = await Promise.all(Array.from({ length: 64 }, () => source.next()));
  assert.deepEqual(
    ids,
    Array.from({ length: 64 }, (_, index) => BigInt(index)),
  );
});

test("err: calls in flight end when the client is closed", async (t) => {
  const script = await Script.start(t, never);
  const pausing = await Script.start(t, refused(status.RESOURCE_EXHAUSTED, "PACE", 5000));
  const made = [client(t, [script]), client(t, [pausing])];
  const calls = made.flatMap((each) => {
    const source = each.region("r");
    return [source.next(), source.take(5), source.fetch(1, { requestId: "r" })];
  });
  const results = Promise.allSettled(calls);
  await sleep(300);
  const began = performance.now();
  for (const each of made) {
    each.close();
  }
  for (const result of await results) {
    assert.ok(result.status === "rejected" && result.reason instanceof Closed, JSON.stringify(result));
  }
  assert.ok(performance.now() - began < 1000);
  await assert.rejects(async () => made[0]?.region("r").next(), Closed);
  await assert.rejects(async () => made[0]?.region("other").next(), Closed);
});

test("ok: prefetched identifiers are dropped when the client is closed", async (t) => {
  const script = await Script.start(t, granted(0n));
  const made = client(t, [script]);
  const source = made.region("r");
  await source.next();
  assert.equal(source.inHand, 999);
  made.close();
  assert.equal(source.inHand, 0);
  await assert.rejects(source.next(), Closed);
  assert.throws(() => source.tryNext(), Closed);
  assert.throws(() => made.xid().tryNext(), Closed);
  assert.throws(() => made.channel(), Closed);
});

test("ok: a token that is refused is read again, once", async (t) => {
  const file = join(scratch(t), "token");
  const unknown = refused(status.UNAUTHENTICATED, "UNAUTHENTICATED");
  const script = await Script.start(t, unknown, granted(4n), unknown);
  writeFileSync(file, "kent_a_ONE");
  const made = client(t, [script], { tokenFile: file });
  rmSync(file);
  writeFileSync(file, "kent_a_OTHER");
  assert.equal(await made.region("r").next(), 4n);
  assert.deepEqual(script.headers, ["Bearer kent_a_ONE", "Bearer kent_a_OTHER"]);
  await assert.rejects(made.region("s").next(), { code: "UNAUTHENTICATED" });
  assert.equal(script.headers.length, 3);
});

test("ok: a daemon that dies in the middle of a block costs nothing until the block is used up", async (t) => {
  const script = await Script.start(t, granted(0n), away);
  const other = await Script.start(t, granted(5000n, { token: 2n }));
  const options = { blockSize: 10, blockSizeMax: 10, lowWater: 0.5 };
  const source = client(t, [script, other], options).region("r");
  const ids = [];
  for (let count = 0; count < 20; count++) {
    ids.push(await source.next());
  }
  assert.deepEqual([ids[9], ids[10], ids[19]], [9n, 5000n, 5009n]);
});
