// Real daemons for the tests, each with its own store, and nginx in front of them.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { get } from "node:https";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const BUILT = join(import.meta.dirname, "../../../target/release");
const KENTD = process.env["KENTD"] ?? join(BUILT, "kentd");
const KENT = process.env["KENT"] ?? join(BUILT, "kent");
const NGINX = process.env["NGINX"] ?? "/usr/sbin/nginx";
const DOCS = join(import.meta.dirname, "../../../docs/console.md");
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
    return Daemon.#start(mkdtempSync(join(tmpdir(), "kent-console-")), settings);
  }

  /** Starts a daemon that asks callers for certificates of its CA. */
  static async startWithTls(): Promise<{ daemon: Daemon; certificate: (name: string) => Certificate }> {
    const folder = mkdtempSync(join(tmpdir(), "kent-console-"));
    const ca = new Ca(folder);
    const { certPath, keyPath } = ca.sign("server", "IP:127.0.0.1");
    const files = ["--tls-cert", certPath, "--tls-key", keyPath, "--tls-client-ca", ca.path];
    const daemon = await Daemon.#start(folder, ["--auth", "required", ...files], ca);
    return { daemon, certificate: (name) => ca.sign("client", `URI:${name}`) };
  }

  static async #start(folder: string, settings: string[], ca?: Ca): Promise<Daemon> {
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
    const daemon = new Daemon(child, folder, `${ca ? "https" : "http"}://127.0.0.1:${http}`);
    await answers(`${daemon.http}/readyz`, child, KENTD, ca);
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
    await end(this.#process);
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** The files of a certificate. */
export interface Certificate {
  certPath: string;
  keyPath: string;
}

/** A CA whose certificates are valid for a day. */
class Ca {
  readonly #folder: string;
  readonly #own: Certificate;

  constructor(folder: string) {
    this.#folder = folder;
    this.#own = this.#make("ca", []);
  }

  get path(): string {
    return this.#own.certPath;
  }

  /** Signs a certificate for the subject's alternative name `name`. */
  sign(file: string, name: string): Certificate {
    const { certPath, keyPath } = this.#own;
    const ends = ["-addext", "basicConstraints=critical,CA:FALSE", "-addext", `subjectAltName=${name}`];
    return this.#make(file, ["-CA", certPath, "-CAkey", keyPath, ...ends]);
  }

  #make(file: string, more: string[]): Certificate {
    const [certPath, keyPath] = [join(this.#folder, `${file}.pem`), join(this.#folder, `${file}.key`)];
    const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", keyPath];
    execFileSync("openssl", ["req", "-x509", "-days", "1", "-subj", `/CN=${file}`, ...key, "-out", certPath, ...more], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    return { certPath, keyPath };
  }
}

/** A running nginx that serves a daemon below /kent/, as docs/console.md says. */
export class Nginx {
  readonly #process: ChildProcess;
  readonly #folder: string;
  /** The address of the daemon behind nginx. */
  readonly address: string;

  private constructor(child: ChildProcess, folder: string, address: string) {
    this.#process = child;
    this.#folder = folder;
    this.address = address;
  }

  /** Starts nginx with the configuration in docs/console.md, and waits until it serves. */
  static async start(daemon: Daemon): Promise<Nginx> {
    const location = /```nginx\n(.*?)```/s.exec(readFileSync(DOCS, "utf8"))?.[1];
    if (!location) throw new Error(`${DOCS} shows no configuration`);
    const folder = mkdtempSync(join(tmpdir(), "kent-nginx-"));
    const port = await freePort();
    const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    const configuration = `
      daemon off;
      pid ${folder}/pid;
      error_log stderr;
      events {}
      http {
        access_log off;
        ${temporary.map((kind) => `${kind}_temp_path ${folder}/${kind};`).join("\n")}
        server {
          listen 127.0.0.1:${port};
          ${location.replace("http://127.0.0.1:7601", daemon.http)}
        }
      }`;
    writeFileSync(join(folder, "nginx.conf"), configuration);
    const child = spawn(NGINX, ["-p", folder, "-e", "stderr", "-c", join(folder, "nginx.conf")], {
      stdio: ["ignore", "ignore", "inherit"],
    });
    const nginx = new Nginx(child, folder, `http://127.0.0.1:${port}/kent`);
    await answers(`${nginx.address}/readyz`, child, NGINX);
    return nginx;
  }

  /** Ends nginx, and deletes its files. */
  async stop(): Promise<void> {
    await end(this.#process);
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Waits until a program answers at an address. */
async function answers(address: string, child: ChildProcess, program: string, ca?: Ca): Promise<void> {
  const end = Date.now() + START_MS;
  while (!(await (ca ? isOkOverTls(address, ca) : isOk(address)))) {
    if (Date.now() > end || child.exitCode !== null) throw new Error(`${program} does not start`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function isOk(address: string): Promise<boolean> {
  return (await fetch(address).catch(() => undefined))?.ok ?? false;
}

/** Like `isOk`, but trusts the CA. `fetch` cannot do this. */
function isOkOverTls(address: string, { path }: Ca): Promise<boolean> {
  return new Promise((resolve) => {
    const asked = get(address, { ca: readFileSync(path) }, (answer) => resolve(answer.statusCode === 200));
    asked.on("error", () => resolve(false));
  });
}

async function end(child: ChildProcess): Promise<void> {
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  await ended;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
