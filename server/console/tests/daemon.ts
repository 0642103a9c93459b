// Real daemons for the tests, each with its own store.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const BUILT = join(import.meta.dirname, "../../../target/release");
const KENTD = process.env["KENTD"] ?? join(BUILT, "kentd");
const KENT = process.env["KENT"] ?? join(BUILT, "kent");
const START_MS = 60_000;

/** A running daemon. */
export class Daemon {
  readonly #process: ChildProcess;
  readonly #folder: string;
  /** The address of its HTTP port. */
  readonly http: string;

  private constructor(child: ChildProcess, folder: string, http: string) {
    this.#process = child;
    this.#folder = folder;
    this.http = http;
  }

  /** Starts a daemon and waits until it serves. */
  static async start(...settings: string[]): Promise<Daemon> {
    const folder = mkdtempSync(join(tmpdir(), "kent-console-"));
    const [grpc, http] = [await freePort(), await freePort()];
    const listen = [
      "--data",
      join(folder, "data"),
      "--listen",
      `127.0.0.1:${grpc},unix:${folder}/kent.sock`,
      "--http",
      `127.0.0.1:${http}`,
    ];
    const child = spawn(KENTD, [...listen, ...settings], {
      stdio: ["ignore", "ignore", process.env["KENT_LOUD"] ? "inherit" : "ignore"],
      // The daemon records its stores in the state directory.
      env: { ...process.env, HOME: folder, XDG_STATE_HOME: folder },
    });
    const daemon = new Daemon(child, folder, `http://127.0.0.1:${http}`);
    const end = Date.now() + START_MS;
    while (!(await fetch(`${daemon.http}/readyz`).catch(() => undefined))?.ok) {
      if (Date.now() > end || child.exitCode !== null) throw new Error(`${KENTD} does not start`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return daemon;
  }

  /** Runs the command line as the daemon's own user, and returns what it prints. */
  kent(...args: string[]): string {
    const socket = `unix:${this.#folder}/kent.sock`;
    return execFileSync(KENT, [...args, "--endpoint", socket], {
      encoding: "utf8",
      env: { ...process.env, HOME: this.#folder, USER: "ada" },
    });
  }

  /** Creates a token with permissions. */
  token(name: string, ...permissions: string[]): string {
    return this.kent("token", "create", name, ...permissions.flatMap((one) => ["--allow", one])).trim();
  }

  /** Ends the daemon, and deletes its store. */
  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once("exit", resolve));
    this.#process.kill("SIGTERM");
    await ended;
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Starts a proxy that serves a daemon under a path. */
export async function proxyBelow(path: string, daemon: Daemon): Promise<{ address: string; server: Server }> {
  const server = createServer((asked, answer) => {
    if (!asked.url?.startsWith(path)) {
      answer.writeHead(404).end();
      return;
    }
    const { host: _host, ...headers } = asked.headers;
    const passed = request(
      new URL(asked.url.slice(path.length) || "/", daemon.http),
      { method: asked.method ?? "GET", headers: { ...headers, origin: daemon.http } },
      (given) => {
        answer.writeHead(given.statusCode ?? 502, given.headers);
        given.pipe(answer);
      },
    );
    passed.on("error", () => answer.destroy());
    asked.pipe(passed);
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  return { address: `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`, server };
}
