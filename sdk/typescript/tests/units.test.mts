// Tests the parts that make no calls.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { mock, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { rootCertificates } from "node:tls";
import { Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { Client, type ClientOptions, ConfigError, RpcFailure } from "kent-client";
import * as v1 from "kent-client/v1";
import { AllocateResponse, RpcStatus } from "kent-client/v1";
import { Attempts, Endpoints } from "../src/calls.js";
import { Endpoint, sizes, Token } from "../src/settings.js";
import {
  Fences,
  granted,
  type Kind,
  kindOf,
  Moment,
  NUMBER,
  Stock,
  UUID_OF_SERIES,
  UUID_OF_SLOT,
} from "../src/stock.js";
import { scratch } from "./daemon.mjs";

test("v1 has the stubs of all services", () => {
  for (const service of ["Access", "Admin", "Allocator", "Codec", "Layouts", "Regions"]) {
    assert.ok(`${service}Client` in v1 && `${service}Service` in v1, service);
  }
});

function packed(width: number, hex: string, fenceSubject = 0n, fenceToken = 0n): AllocateResponse {
  const value = { width, data: Buffer.from(hex, "hex"), fenceSubject, fenceToken };
  return AllocateResponse.create({ identifiers: { $case: "packed", value } });
}

function drain<T>(kind: Kind<T>, reply: AllocateResponse, count: number): T[] {
  const ids = granted(kind, reply, count);
  return Array.from({ length: ids.left }, () => ids.next());
}

test("ok: a block of many UUIDs keeps every digit", () => {
  for (const count of [1, 63, 64, 65, 128, 1000]) {
    // Every third UUID begins with the same eight bytes as the one before.
    const hex = Array.from({ length: count }, () => randomBytes(16).toString("hex"));
    const uuids = hex.map((digits, index) =>
      index % 3 === 2 ? hex[index - 1]?.slice(0, 16) + digits.slice(16) : digits,
    );
    const texts = uuids.map((digits) => digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-"));
    assert.deepEqual(drain(UUID_OF_SLOT, packed(16, uuids.join("")), count), texts);
  }
});

test("ok: numbers wider than 2^53 keep every bit", () => {
  for (const [width, hex, value] of [
    [8, "0020000000000001", 2n ** 53n + 1n],
    [7, "20000000000001", 2n ** 53n + 1n],
    [8, "ffffffffffffffff", 2n ** 64n - 1n],
    [1, "07", 7n],
    [6, "800000000001", 2n ** 47n + 1n],
    [9, "010000000000000003", 2n ** 64n + 3n],
    [16, "80000000000000000000000000000001", 2n ** 127n + 1n],
  ] as const) {
    assert.deepEqual(drain(NUMBER, packed(width, hex + hex), 2), [value, value]);
  }
});

test("ok: UUIDs are text", () => {
  const hex = [
    "01a1fb4621bf700080003cf49345d9a8",
    "01a1fb4621bf70008010020b1b94e68f",
    "ff00000000000000000000000000000a",
  ];
  assert.deepEqual(drain(UUID_OF_SLOT, packed(16, hex.join("")), 3), [
    "01a1fb46-21bf-7000-8000-3cf49345d9a8",
    "01a1fb46-21bf-7000-8010-020b1b94e68f",
    "ff000000-0000-0000-0000-00000000000a",
  ]);
  assert.deepEqual(drain(UUID_OF_SERIES, packed(16, "00".repeat(16)), 1), ["00000000-0000-0000-0000-000000000000"]);
});

test("err: invalid replies", () => {
  assert.throws(() => drain(UUID_OF_SLOT, packed(8, "00".repeat(8)), 1), /8 bytes/);
  assert.throws(() => drain(NUMBER, packed(8, "00".repeat(9)), 1), /no packed/);
  assert.throws(() => drain(NUMBER, packed(0, ""), 1), /no packed/);
  assert.throws(() => drain(NUMBER, packed(8, ""), 1), /got 0/);
  assert.throws(() => drain(NUMBER, packed(8, "00".repeat(16)), 1), /requested 1 identifiers, got 2/);
  assert.throws(() => drain(kindOf("xid") as Kind<string>, packed(8, "00".repeat(8)), 1), /no identifiers as text/);
});

test("ok: the highest token of each subject counts", () => {
  const fences = new Fences();
  for (const [source, subject, token, admitted] of [
    ["region:a", 1n, 5n, true],
    ["region:a", 1n, 4n, false],
    ["region:a", 1n, 6n, true],
    ["region:a", 2n, 1n, true],
    ["region:b", 1n, 1n, true],
    ["region:a", 1n, 5n, false],
    ["serial:s", 0n, 0n, true],
    ["uuidv7", 1n, 9n, true],
    ["uuidv6", 1n, 8n, false],
  ] as const) {
    const reply = packed(8, "", subject, token);
    assert.equal(fences.admit(kindOf(source), source, reply), admitted, `${source} ${subject} ${token}`);
  }
});

test("ok: blocks grow while they last less than a second, and shrink again", () => {
  const stock = new Stock(NUMBER, sizes({ blockSize: 100, blockSizeMax: 350 }));
  assert.deepEqual(
    [1, 2, 3, 4, 12_000, 13_500, 30_000, 45_000].map((now) => stock.nextSize(now)),
    [100, 200, 350, 350, 175, 175, 100, 100],
  );
  assert.equal(new Stock(kindOf("xid") as Kind<string>, sizes({})).sizeMax, 10_000);
});

test("ok: identifiers that carry the time expire, by either clock", async () => {
  for (const clock of [Date, performance]) {
    for (const [kind, left] of [
      [UUID_OF_SERIES, 1],
      [UUID_OF_SLOT, 0],
    ] as const) {
      const stock = new Stock(kind, sizes({ maxAgeMs: 10_000 }));
      stock.add(granted(kind, packed(16, "00".repeat(32)), 2), new Moment());
      assert.ok(stock.pop());
      await sleep(2);
      const later = clock.now() + 10_100;
      mock.method(clock, "now", () => later);
      assert.equal(stock.pop() === undefined ? 0 : 1, left);
      mock.restoreAll();
    }
  }
});

test("ok: a clock that was set back does not make identifiers younger", () => {
  const stock = new Stock(UUID_OF_SLOT, sizes({ maxAgeMs: 10_000 }));
  stock.add(granted(UUID_OF_SLOT, packed(16, "00".repeat(32)), 2), new Moment());
  const [wall, monotonic] = [Date.now() - 3_600_000, performance.now() + 10_100];
  mock.method(Date, "now", () => wall);
  mock.method(performance, "now", () => monotonic);
  assert.equal(stock.pop(), undefined);
  mock.restoreAll();
});

test("ok: the next block follows at the edge, and is asked for once", () => {
  const stock = new Stock(NUMBER, sizes({ lowWater: 0.5 }));
  const add = (hex: string) => stock.add(granted(NUMBER, packed(1, hex), 9), new Moment());
  add("01020304");
  assert.deepEqual([stock.pop(), stock.isLow()], [1n, false]);
  assert.deepEqual([stock.pop(), stock.isLow(), stock.isLow()], [2n, true, false]);
  add("0506");
  assert.equal(stock.inHand, 4);
  assert.deepEqual([stock.pop(), stock.isLow(), stock.pop(), stock.pop(), stock.isLow()], [3n, false, 4n, 5n, true]);
  assert.deepEqual([stock.pop(), stock.pop(), stock.inHand], [6n, undefined, 0]);
  add("07");
  stock.close();
  add("08");
  assert.equal(stock.pop(), undefined);
});

test("ok: attempts use the other endpoints first without a pause", () => {
  const endpoints = new Endpoints(["a:1", "b:1"].map((text) => Endpoint.parse(text)));
  const attempts = new Attempts(endpoints, new Token(undefined, undefined), 1, Number.POSITIVE_INFINITY);
  assert.equal(attempts.backoffMs(), 0);
  const pauses = Array.from({ length: 9 }, () => attempts.backoffMs());
  assert.ok((pauses[0] ?? 0) >= 20 && (pauses[0] ?? 99) <= 40 && (pauses[8] ?? 0) >= 1000 && (pauses[8] ?? 0) <= 2000);
});

test("ok: the first endpoint is used again after 30 seconds", () => {
  const endpoints = new Endpoints(["a:1", "b:1", "c:1"].map((text) => Endpoint.parse(text)));
  endpoints.leave(0, 1000);
  endpoints.leave(0, 1000);
  assert.equal(endpoints.current(1001), 1);
  endpoints.leave(1, 20_000);
  assert.deepEqual([endpoints.current(30_999), endpoints.current(31_000)], [2, 0]);
});

test("err: endpoints", () => {
  for (const text of ["", "a", "http://", "ftp://a:1", "a:99999", ":7600", "a b:1", "unix:", "a:0", "a:1\n"]) {
    assert.throws(() => new Client(text), { name: "ConfigError", message: /HOST:PORT/ }, JSON.stringify(text));
  }
});

test("ok: endpoints", () => {
  for (const [text, target, tls] of [
    ["127.0.0.1:7600", "127.0.0.1:7600", false],
    ["http://[::1]:7600/", "[::1]:7600", false],
    ["https://kent.example:80", "kent.example:80", true],
    ["unix:/run/kent.sock", "unix:/run/kent.sock", false],
  ] as const) {
    assert.deepEqual({ ...Endpoint.parse(text) }, { target, tls });
  }
});

test("ok: an endpoint without a scheme uses TLS if there is a CA or a certificate", () => {
  for (const [text, tls] of [
    ["kent.example:7600", true],
    ["https://kent.example:7600", true],
    ["http://kent.example:7600", false],
    ["unix:/run/kent.sock", false],
  ] as const) {
    assert.equal(Endpoint.parse(text, true).tls, tls, text);
  }
  const ca = Buffer.from(rootCertificates[0] ?? "");
  for (const endpoints of ["a:1", ["a:1", "https://b:1"], ["a:1", "unix:/s"]]) {
    new Client(endpoints, { ca, token: "kent_a_SECRET" }).close();
  }
});

test("err: settings", () => {
  const rows: [ClientOptions, RegExp][] = [
    [{ blockSize: 0 }, /blockSize must be 1 to/],
    [{ blockSize: 1.5 }, /blockSize must be 1 to/],
    [{ blockSize: 10, blockSizeMax: 9 }, /blockSize must be 1 to/],
    [{ blockSizeMax: 200_001 }, /at most 200000/],
    [{ lowWater: Number.NaN }, /lowWater must be 0 to 1/],
    [{ maxAgeMs: 0 }, /maxAgeMs must be more than 0/],
    [{ attemptTimeoutMs: 0 }, /attemptTimeoutMs must be more than 0/],
    [{ requestTimeoutMs: -1 }, /requestTimeoutMs must be more than 0/],
    [{ token: "SECRET" }, /a token is kent_ID_SECRET/],
    [{ token: "kent_a_b", tokenFile: "x" }, /token must be left out/],
    [{ tokenFile: "/nonexistent/token" }, /ENOENT/],
    [{ ca: Buffer.from("x") }, /ca must be PEM/],
    [{ cert: "x" }, /cert and key must be given together/],
  ];
  for (const [options, message] of rows) {
    assert.throws(() => new Client("127.0.0.1:7600", options), { kind: "config", message });
  }
  assert.throws(() => new Client([]), ConfigError);
  assert.throws(() => new Client(["a:1", "https://b:1"]), /all with https/);
  assert.throws(() => new Client("https://a:1", { ca: Buffer.from("x") }), /ca must be PEM/);
  assert.throws(() => new Client("https://a:1", { ca: "/nonexistent" }), /ca: ENOENT/);
  for (const endpoint of ["http://a:1", "unix:/s"]) {
    assert.throws(() => new Client(endpoint, { ca: "x" }), /left out without https:\/\//);
    assert.throws(() => new Client(endpoint, { cert: "x", key: "x" }), /left out without https:\/\//);
  }
  assert.throws(() => new Client(["a:1", "http://b:1"], { ca: "x" }), /all with https/);
});

test("err: a token leaves the machine only under TLS", () => {
  const token = "kent_a_SECRET";
  for (const endpoint of ["10.0.0.7:7600", "localhost.example:7600", "127.0.0.1.example:1"]) {
    assert.throws(() => new Client(["127.0.0.1:1", endpoint], { token }), /another machine/);
    new Client(endpoint, { token, allowPlainToken: true }).close();
  }
  for (const endpoint of ["localhost:1", "[::1]:1", "127.8.0.1:1", "https://kent.example:1", "unix:/s"]) {
    new Client(endpoint, { token }).close();
  }
});

test("ok: a token file is read again, and an invalid token is not sent", (t) => {
  const file = join(scratch(t), "token");
  writeFileSync(file, "kent_a_ONE\n");
  const token = new Token(undefined, file);
  assert.equal(token.header(), "Bearer kent_a_ONE");
  writeFileSync(file, "half a tok");
  assert.equal(token.header(true), "Bearer kent_a_ONE");
  writeFileSync(file, "kent_a_OTHER");
  assert.equal(token.header(), "Bearer kent_a_ONE");
  assert.equal(token.header(true), "Bearer kent_a_OTHER");
  assert.deepEqual(token.metadata().get("authorization"), ["Bearer kent_a_OTHER"]);
});

test("err: the message of a failure is the daemon's own", () => {
  const failure = (details: string, message?: string) => {
    const metadata = new Metadata();
    if (message !== undefined) {
      metadata.set("grpc-status-details-bin", Buffer.from(RpcStatus.encode(RpcStatus.create({ message })).finish()));
    }
    const code = status.NOT_FOUND;
    return new RpcFailure(Object.assign(new Error(), { code, details, metadata }) as ServiceError);
  };
  assert.equal(failure("a%3F", "a?").message, "NOT_FOUND: a?");
  assert.equal(failure("a%3F", "a?").details, "a?");
  assert.equal(failure("%3F", "%3F: 50% %").details, "%3F: 50% %");
  // Without a status in the metadata, grpc-js has decoded the message in part.
  for (const message of [undefined, ""]) {
    assert.equal(failure("r%3F %23%2f 50% %zz %E9 é", message).details, "r? #/ 50% %zz %E9 é");
  }
});

test("err: counts and request IDs", async () => {
  const client = new Client();
  await assert.rejects(client.uuidV7().take(1.5), /count must be/);
  await assert.rejects(client.region("r").fetch(0, { requestId: "r" }), /count must be/);
  await assert.rejects(client.region("r").fetch(1, { requestId: "" }), /requestId must be/);
  assert.deepEqual(await client.uuidV7().take(0), []);
  client.close();
});

test("ok: a source has one handle, and its type", () => {
  const client = new Client();
  const numbers: AsyncIterable<bigint> = client.source("region:r");
  const uuids: AsyncIterable<string> = client.source("serial:GBP");
  assert.equal(client.region("r"), numbers);
  assert.notEqual(client.region("r", "parts"), numbers);
  assert.equal(client.region("r", "parts").name, "region:r@parts");
  assert.notEqual(client.uuidV6(), uuids);
  client.close();
});
