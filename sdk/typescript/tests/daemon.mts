// Runs a real daemon for the tests. KENTD and KENT name the programs of the daemon and of the command line.

import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

/** The directory of the repository, which `check` sets. */
export const ROOT = process.env["KENT_ROOT"] ?? "";

function program(name: string): string {
  const target = process.env["CARGO_TARGET_DIR"] ?? join(ROOT, "target");
  const built = ["release", "debug"].map((kind) => join(target, kind, name)).find((path) => existsSync(path));
  const found = process.env[name.toUpperCase()] ?? built;
  assert.ok(found, `build it first: cargo build --release -p kentd -p kent-cli, or set ${name.toUpperCase()}`);
  return found;
}

/** Returns a port that is currently free. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  return typeof address === "object" && address !== null ? address.port : 0;
}

/** A directory for one test. */
export function scratch(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), "kent-typescript-"));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

export class Daemon {
  #process: ChildProcess | undefined;

  private constructor(
    readonly directory: string,
    readonly port: number,
    private readonly flags: readonly string[],
  ) {}

  static async start(t: TestContext, flags: readonly string[] = [], directory = scratch(t)): Promise<Daemon> {
    const daemon = new Daemon(directory, await freePort(), flags);
    t.after(() => daemon.kill());
    await daemon.start();
    return daemon;
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  get socket(): string {
    return `unix:${this.directory}/s`;
  }

  async start(): Promise<void> {
    const log = openSync(join(this.directory, "log"), "a");
    const listen = `${this.address},${this.socket}`;
    const http = `127.0.0.1:${await freePort()}`;
    const places = ["--data", `${this.directory}/d`, "--witness", `${this.directory}/w`];
    const args = [...places, "--listen", listen, "--http", http, ...this.flags];
    const started = spawn(program("kentd"), args, { stdio: ["ignore", log, log] });
    this.#process = started;
    for (let look = 0; look < 600; look++) {
      if (await listens(this.port)) {
        return;
      }
      assert.equal(started.exitCode, null, readFileSync(join(this.directory, "log"), "utf8"));
      await sleep(50);
    }
    assert.fail("the daemon does not listen");
  }

  /** Kills the daemon with SIGKILL. */
  async kill(): Promise<void> {
    const running = this.#process;
    this.#process = undefined;
    if (running !== undefined && running.exitCode === null && running.signalCode === null) {
      running.kill("SIGKILL");
      await once(running, "exit");
    }
  }

  /** Runs the command kent, as the daemon's own user. */
  kent(...args: string[]): string {
    return execFileSync(program("kent"), ["--endpoint", this.socket, ...args], { encoding: "utf8", stdio: "pipe" });
  }
}

async function listens(port: number): Promise<boolean> {
  const probe = connect(port, "127.0.0.1");
  const found = await new Promise<boolean>((resolve) => {
    probe.once("connect", () => resolve(true)).once("error", () => resolve(false));
  });
  probe.destroy();
  return found;
}
