// Tests the client against a real daemon.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, type ClientOptions, Closed, Refused, RpcFailure, type Source, Unavailable } from "kent-client";
import { AccessClient, AccessService, ListRegionsRequest, RegionsService, WhoAmIRequest } from "kent-client/v1";
import { Daemon, freePort, ROOT, scratch } from "./daemon.mjs";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-([1-8])[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

test("ok: each source has its type", async (t) => {
  const daemon = await Daemon.start(t);
  daemon.kent("region", "create", "orders", "--prefix", "101101", "--suffix", "40");
  using client = new Client(daemon.address);
  for (const [source, version] of [
    [client.uuidV7(), "7"],
    [client.uuidV6(), "6"],
  ] as const) {
    const [first, second] = [await source.next(), await source.next()];
    assert.equal(UUID.exec(first)?.[1], version, first);
    assert.ok(first < second);
  }
  const order = await client.region("orders").next();
  assert.equal(typeof order, "bigint");
  assert.equal(order, 0b101101n << 58n);
  assert.ok(order > 2n ** 53n);
  assert.equal(await client.region("orders").next(), order + 1n);
  assert.equal((await client.xid().next()).length, 11);
  assert.equal((await client.source("uid11-fullrand").next()).length, 11);
  assert.match(await client.source("serial:GBP").next(), UUID);
});

test("ok: tasks go on after each kill, and nothing comes twice", async (t) => {
  // Kill and restart the daemon repeatedly, for KENT_SOAK_SECONDS.
  const seconds = Number(process.env["KENT_SOAK_SECONDS"] ?? 6);
  const daemon = await Daemon.start(t);
  daemon.kent("region", "create", "orders", "--suffix", "40");
  using client = new Client(daemon.address, { blockSize: 50, blockSizeMax: 200, requestTimeoutMs: 60_000 });
  const sources: Source<string | bigint>[] = [client.uuidV7(), client.region("orders"), client.xid()];
  const seen = new Set<string | bigint>();
  const counts = Array.from({ length: 8 }, () => 0);
  let failure: unknown;
  let ended = false;
  const work = async (task: number) => {
    while (!ended) {
      for (const source of sources) {
        for (const id of [await source.next(), ...(await source.take(2))]) {
          assert.ok(!seen.has(id), `${id} came twice`);
          seen.add(id);
          counts[task] = (counts[task] ?? 0) + 1;
        }
      }
      await sleep(2);
    }
  };
  const tasks = counts.map(async (_, task) => {
    try {
      await work(task);
    } catch (error) {
      failure ??= error;
    }
  });
  let kills = 0;
  const until = performance.now() + seconds * 1000;
  while (performance.now() < until && failure === undefined) {
    await sleep(500 + Math.random() * 1000);
    await daemon.kill();
    kills += 1;
    await sleep(300);
    await daemon.start();
    // More than all tasks together can take from prefetched blocks.
    const least = counts.map((count) => count + 500);
    while (counts.some((count, task) => count < (least[task] ?? 0)) && failure === undefined) {
      await sleep(10);
    }
  }
  ended = true;
  await Promise.all(tasks);
  assert.equal(failure, undefined);
  assert.equal(
    seen.size,
    counts.reduce((sum, count) => sum + count, 0),
  );
  t.diagnostic(
    `soak: ${seconds} s, ${kills} kills, ${seen.size} identifiers, at least ${Math.min(...counts)} by each task`,
  );
});

test("ok: a large take crosses the edges of blocks", async (t) => {
  const daemon = await Daemon.start(t);
  using client = new Client(daemon.address, { blockSize: 100 });
  const uuids = client.uuidV7();
  const ids = [await uuids.next(), ...(await uuids.take(250_000)), await uuids.next()];
  assert.equal(new Set(ids).size, 250_002);
  assert.equal(new Set(await client.xid().take(25_000)).size, 25_000);
});

test("ok: another endpoint takes over", async (t) => {
  const daemon = await Daemon.start(t);
  using client = new Client([`127.0.0.1:${await freePort()}`, daemon.address], { requestTimeoutMs: 5000 });
  assert.match(await client.uuidV7().next(), UUID);
});

test("ok: a Unix socket", async (t) => {
  const daemon = await Daemon.start(t);
  using client = new Client(daemon.socket);
  assert.match(await client.uuidV7().next(), UUID);
});

test("ok: a request ID is granted once", async (t) => {
  const daemon = await Daemon.start(t);
  daemon.kent("region", "create", "invoices", "--suffix", "40");
  daemon.kent("region", "set", "invoices", "--strict", "--yes");
  using client = new Client(daemon.address);
  const source = client.region("invoices");
  const first = await source.fetch(3, { requestId: "r" });
  assert.equal(first.length, 3);
  assert.deepEqual(await source.fetch(3, { requestId: "r" }), first);
  await daemon.kill();
  await daemon.start();
  assert.deepEqual(await source.fetch(3, { requestId: "r" }), first);
  assert.notDeepEqual(await source.fetch(3, { requestId: "s" }), first);
});

test("err: refusals have their reason", async (t) => {
  const daemon = await Daemon.start(t);
  daemon.kent("region", "create", "orders", "--suffix", "40");
  daemon.kent("region", "seal", "orders", "--yes");
  using client = new Client(daemon.address);
  for (const [source, code, reason] of [
    ["region:orders", "FAILED_PRECONDITION", "SEALED"],
    ["region:absent", "NOT_FOUND", "NO_SUCH_REGION"],
    ["nonsense", "INVALID_ARGUMENT", undefined],
  ] as const) {
    await assert.rejects(client.source(source).next(), (error) => {
      assert.ok(error instanceof Refused && error instanceof RpcFailure && error.details !== "");
      assert.deepEqual([error.kind, error.code, reason && error.reason], ["refused", code, reason]);
      assert.ok(code !== "INVALID_ARGUMENT" || error.fields.includes("source"), error.fields.join());
      assert.ok(code !== "INVALID_ARGUMENT" || error.message.includes("region:nonsense?"), error.message);
      return true;
    });
  }
});

test("err: without a daemon the endpoint is named", async () => {
  const address = `127.0.0.1:${await freePort()}`;
  using client = new Client(address, { requestTimeoutMs: 300 });
  await assert.rejects(client.uuidV7().next(), (error) => {
    assert.ok(
      error instanceof Unavailable && error.message.includes(address) && error.message.includes("ECONNREFUSED"),
    );
    return true;
  });
  assert.equal(client.uuidV7().tryNext(), undefined);
});

test("ok: old identifiers are dropped", async (t) => {
  const daemon = await Daemon.start(t);
  daemon.kent("region", "create", "orders", "--suffix", "40");
  using client = new Client(daemon.address, { maxAgeMs: 200, lowWater: 0 });
  const [uuids, orders] = [client.uuidV7(), client.region("orders")];
  await uuids.next();
  const order = await orders.next();
  await sleep(400);
  const now = Date.now();
  const milliseconds = Number.parseInt((await uuids.next()).replace("-", "").slice(0, 12), 16);
  assert.ok(Math.abs(milliseconds - now) < 200, `${milliseconds - now}`);
  assert.equal(await orders.next(), order + 1n);
});

test("ok: a token file is read again", async (t) => {
  const daemon = await Daemon.start(t, ["--auth", "required"]);
  const token = (name: string) => {
    const words = daemon.kent("token", "create", name, "--allow", "allocate:*").split(/\s+/);
    return words.find((word) => word.startsWith("kent_")) ?? "";
  };
  const [first, other] = [token("a"), token("b")];
  const file = join(daemon.directory, "token");
  writeFileSync(file, first);
  using client = new Client(daemon.address, { tokenFile: file, blockSize: 1, blockSizeMax: 1 });
  await client.uuidV7().next();
  writeFileSync(file, other);
  daemon.kent("token", "revoke", first.split("_")[1] ?? "", "--yes");
  assert.equal((await client.uuidV7().take(2)).length, 2);
  assert.deepEqual(client.metadata().get("authorization"), [`Bearer ${other}`]);
  const me = await client.call(AccessService.whoAmI, WhoAmIRequest.create());
  const same = await new Promise((resolve, reject) => {
    client
      .stub(AccessClient)
      .whoAmI(WhoAmIRequest.create(), (error, reply) => (error ? reject(error) : resolve(reply)));
  });
  assert.deepEqual(same, me);
  using nameless = new Client(daemon.address);
  await assert.rejects(nameless.uuidV7().next(), { kind: "refused", code: "UNAUTHENTICATED" });
  await assert.rejects(nameless.call(RegionsService.listRegions, ListRegionsRequest.create()), RpcFailure);
});

test("ok: TLS and client certificates", async (t) => {
  const directory = scratch(t);
  const at = (name: string) => join(directory, name);
  const certificate = (name: string, ...extension: string[]) => {
    const made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
    const names = ["-keyout", `${name}.key`, "-out", `${name}.pem`, "-subj", `/CN=${name}`];
    execFileSync("openssl", [...made, ...names, ...extension], { cwd: directory, stdio: "pipe" });
  };
  certificate("ca");
  const signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "basicConstraints=CA:FALSE"];
  certificate("server", ...signed, "-addext", "subjectAltName=IP:127.0.0.1");
  certificate("client", ...signed, "-addext", "subjectAltName=DNS:orders");
  certificate("other");
  const flags = ["--tls-cert", at("server.pem"), "--tls-key", at("server.key"), "--tls-client-ca", at("ca.pem")];
  const daemon = await Daemon.start(t, flags, directory);
  const ca = at("ca.pem");
  const identity = { cert: at("client.pem"), key: at("client.key") };
  const address = `https://${daemon.address}`;
  for (const options of [
    { ca, ...identity },
    { ca: readFileSync(ca), ...identity },
  ]) {
    for (const endpoint of [address, daemon.address]) {
      using client = new Client(endpoint, options);
      assert.match(await client.uuidV7().next(), UUID);
    }
  }
  const rows: [string, ClientOptions][] = [
    [address, { ca: at("other.pem"), ...identity }],
    [address, { ca }],
    [address, {}],
    [`https://localhost:${daemon.port}`, { ca, ...identity }],
    [daemon.address, {}],
  ];
  for (const [endpoint, options] of rows) {
    using client = new Client(endpoint, { requestTimeoutMs: 1000, ...options });
    await assert.rejects(client.uuidV7().next(), Unavailable, `${endpoint} ${Object.keys(options)}`);
  }
  assert.throws(() => new Client(address, { cert: ca, key: at("server.key") }), { kind: "config" });
});

test("ok: a client is closed with calls in flight", async (t) => {
  const daemon = await Daemon.start(t);
  const client = new Client(daemon.address, { blockSize: 10, blockSizeMax: 10 });
  const calls = Array.from({ length: 500 }, () => client.uuidV7().next());
  await calls[0];
  client.close();
  const results = await Promise.allSettled(calls);
  for (const result of results) {
    assert.ok(result.status === "fulfilled" || result.reason instanceof Closed, JSON.stringify(result));
  }
  assert.ok(results.some((result) => result.status === "rejected"));
});

test("ok: require and import give the same classes", async () => {
  const required = createRequire(import.meta.url)("kent-client");
  assert.equal(required.Client, Client);
  assert.equal(createRequire(import.meta.url)("kent-client/v1").AccessClient, AccessClient);
});

test("ok: the examples in the documents run", async (t) => {
  const daemon = await Daemon.start(t);
  daemon.kent("region", "create", "orders", "--suffix", "40");
  daemon.kent("region", "create", "r1", "--prefix", "1", "--suffix", "40");
  const texts = new URL("../texts/", import.meta.url);
  const examples = readdirSync(texts).filter((name) => name.endsWith(".mjs"));
  assert.ok(examples.length >= 4);
  for (const name of examples) {
    const path = new URL(name, texts).pathname;
    const env = { ...process.env, KENT_ENDPOINT: daemon.address };
    execFileSync(process.execPath, [path], { env, encoding: "utf8", timeout: 20_000 });
  }
});

test("ok: the example service", async (t) => {
  const daemon = await Daemon.start(t);
  const port = String(await freePort());
  const server = spawn(process.execPath, [new URL("../example/server.mjs", import.meta.url).pathname], {
    env: { ...process.env, PORT: port, KENT_ENDPOINT: daemon.address },
    stdio: ["ignore", "pipe", "inherit"],
  });
  t.after(() => server.kill("SIGKILL"));
  await once(server.stdout, "data");
  const post = async (path: string) => {
    const reply = await fetch(`http://127.0.0.1:${port}${path}`, { method: "POST", body: "{}" });
    return { status: reply.status, body: (await reply.json()) as Record<string, string> };
  };
  const health = await fetch(`http://127.0.0.1:${port}/healthz`);
  assert.deepEqual([health.status, await health.text()], [200, "ok"]);
  const refusal = await post("/orders");
  assert.equal(refusal.status, 503);
  assert.match(refusal.body["error"] ?? "", /no region "orders"/);
  daemon.kent("region", "create", "orders", "--suffix", "40");
  const [first, second] = [await post("/orders"), await post("/orders")];
  assert.equal(BigInt(second.body["order"] ?? ""), BigInt(first.body["order"] ?? "") + 1n);
  assert.match(first.body["event"] ?? "", UUID);
  assert.match((await post("/events")).body["event"] ?? "", UUID);
  assert.equal((await post("/nothing")).status, 404);
  server.kill("SIGTERM");
  assert.deepEqual(await once(server, "exit"), [0, null]);
});

test("ok: the adapter of the conformance kit", async (t) => {
  const daemon = await Daemon.start(t);
  const adapter = spawn(join(ROOT, "sdk/typescript/conformance/run"), { stdio: ["pipe", "pipe", "inherit"] });
  t.after(() => adapter.kill("SIGKILL"));
  const lines = createInterface({ input: adapter.stdout })[Symbol.asyncIterator]();
  const read = async () => JSON.parse((await lines.next()).value);
  const ask = async (command: object) => {
    adapter.stdin.write(`${JSON.stringify(command)}\n`);
    return read();
  };
  assert.equal((await read()).hello.language, "typescript");
  assert.deepEqual(await ask({ id: 1, do: "open", endpoints: [daemon.address], block_size: 10 }), { id: 1 });
  const { ids } = await ask({ id: 2, do: "next", source: "uuidv7", count: 5, threads: 4 });
  assert.equal(new Set(ids).size, 20);
  assert.equal((await ask({ id: 3, do: "try_next", source: "uuidv7" })).ids.length, 1);
  assert.equal((await ask({ id: 4, do: "take", source: "xid", count: 50_000 })).ids.length, 50_000);
  const refusal = await ask({ id: 5, do: "fetch", source: "region:r", count: 1, request_id: "a" });
  assert.deepEqual([refusal.ids, refusal.error.kind, refusal.error.reason], [[], "refused", "NO_SUCH_REGION"]);
  assert.deepEqual(await ask({ id: 6, do: "close" }), { id: 6 });
  assert.equal((await ask({ id: 7, do: "next", source: "uuidv7" })).error.kind, "closed");
  assert.equal((await ask({ id: 8, do: "open", endpoints: ["nonsense"] })).error.kind, "config");
  adapter.stdin.end();
  assert.deepEqual(await once(adapter, "exit"), [0, null]);
});

test("ok: the benchmark", { skip: !existsSync(join(ROOT, "sdk/typescript/bench")) }, async (t) => {
  const daemon = await Daemon.start(t);
  const env = { ...process.env, KENT_ENDPOINT: daemon.address };
  const line = execFileSync(join(ROOT, "sdk/typescript/bench"), ["1"], { env, encoding: "utf8" });
  const { kent_ns, own_ns, calls } = JSON.parse(line);
  assert.ok(kent_ns > 0 && own_ns > 0 && calls === 1_000_000);
});
