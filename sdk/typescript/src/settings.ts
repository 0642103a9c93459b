// The settings of a client, which are checked when the client is created.

import { readFileSync, statSync } from "node:fs";
import { BlockList, isIP } from "node:net";
import { type ChannelCredentials, credentials, Metadata } from "@grpc/grpc-js";
import { ConfigError } from "./errors.js";

/** The path of a PEM file, or the content of the file as bytes. */
export type Pem = string | Uint8Array;

/** The options of a client. All times are in milliseconds. */
export interface ClientOptions {
  /** The caller's token. */
  token?: string | undefined;
  /** A file with the caller's token. The client reads the file again when it changes. */
  tokenFile?: string | undefined;
  /** Send the token to other machines without TLS. */
  allowPlainToken?: boolean | undefined;
  /** The CA certificates to trust. The default is Node's own list. Endpoints without a scheme then use TLS. */
  ca?: Pem | undefined;
  /** The client's own certificate. Endpoints without a scheme then use TLS. */
  cert?: Pem | undefined;
  /** The private key of `cert`. */
  key?: Pem | undefined;
  /** The timeout of one attempt. Default: 2000. */
  attemptTimeoutMs?: number | undefined;
  /** The timeout of a request, including all its attempts. Default: 10000. */
  requestTimeoutMs?: number | undefined;
  /** The size of the first block. The size adapts so that a block lasts about a second. Default: 1000. */
  blockSize?: number | undefined;
  /** The maximum number of identifiers in a block. Default: 100000. */
  blockSizeMax?: number | undefined;
  /** The share of a block, from 0 to 1, that is left when the next block is fetched. Default: 0.5. */
  lowWater?: number | undefined;
  /** The age at which identifiers that contain a timestamp are dropped. Default: 10000. */
  maxAgeMs?: number | undefined;
  /** Continue with the heir of a closed region. Default: false. */
  followHeirs?: boolean | undefined;
}

/** How many identifiers a source keeps in memory, and for how long. */
export interface Sizes {
  readonly blockSize: number;
  readonly blockSizeMax: number;
  readonly lowWater: number;
  readonly maxAgeMs: number;
}

/** The checked settings of a client. */
export interface Settings {
  readonly endpoints: readonly Endpoint[];
  readonly sizes: Sizes;
  readonly attemptTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly token: Token;
  readonly secure: ChannelCredentials | undefined;
  readonly followHeirs: boolean;
}

/** Checks the arguments of a client. */
export function settings(endpoints: string | readonly string[], options: ClientOptions): Settings {
  const { ca, cert, key } = options;
  const certified = ca !== undefined || cert !== undefined || key !== undefined;
  const texts = typeof endpoints === "string" ? [endpoints] : endpoints;
  const parsed = texts.map((text) => Endpoint.parse(text, certified));
  check("the endpoints", "at least one", parsed.length > 0);
  const schemes = new Set(parsed.filter((endpoint) => !endpoint.isUnix).map((endpoint) => endpoint.tls));
  const tls = schemes.has(true);
  check("the endpoints", "all with https:// or all without", schemes.size < 2);
  check("cert and key", "given together", (cert === undefined) === (key === undefined));
  check("ca, cert and key", "left out without https://", tls || !certified);
  const token = new Token(options.token, options.tokenFile);
  const exposed = parsed.find((endpoint) => !endpoint.isPrivate);
  if (token.isSet && exposed !== undefined && options.allowPlainToken !== true) {
    throw new ConfigError(
      `endpoint ${exposed.target} is on another machine and without TLS, so its network could read the token: ` +
        "use https://, or pass allowPlainToken: true",
    );
  }
  const attemptTimeoutMs = options.attemptTimeoutMs ?? 2000;
  const requestTimeoutMs = options.requestTimeoutMs ?? 10_000;
  check("attemptTimeoutMs", "more than 0", attemptTimeoutMs > 0);
  check("requestTimeoutMs", "more than 0", requestTimeoutMs > 0);
  return {
    endpoints: parsed,
    sizes: sizes(options),
    attemptTimeoutMs,
    requestTimeoutMs,
    token,
    secure: tls ? secure(options) : undefined,
    followHeirs: options.followHeirs ?? false,
  };
}

/** Checks the sizes of blocks and the maximum age. */
export function sizes(options: ClientOptions): Sizes {
  const { blockSize = 1000, blockSizeMax = 100_000, lowWater = 0.5, maxAgeMs = 10_000 } = options;
  check("blockSizeMax", "a whole number, at most 200000", Number.isInteger(blockSizeMax) && blockSizeMax <= 200_000);
  const fits = Number.isInteger(blockSize) && 1 <= blockSize && blockSize <= blockSizeMax;
  check("blockSize", "1 to blockSizeMax", fits);
  check("lowWater", "0 to 1", 0 <= lowWater && lowWater <= 1);
  check("maxAgeMs", "more than 0", maxAgeMs > 0);
  return { blockSize, blockSizeMax, lowWater, maxAgeMs };
}

function check(name: string, allowed: string, holds: boolean): void {
  if (!holds) {
    throw new ConfigError(`${name} must be ${allowed}`);
  }
}

const HOST_PORT = /^(\[[0-9a-fA-F:.]+\]|[^\s:/[\]]+):(\d{1,5})$/;
const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8);
LOOPBACK.addAddress("::1", "ipv6");

/** The address of a daemon. */
export class Endpoint {
  private constructor(
    /** The target that gRPC dials: `HOST:PORT` or `unix:PATH`. */
    readonly target: string,
    readonly tls: boolean,
  ) {}

  /** Parses an endpoint. An endpoint without a scheme uses TLS if the client has a CA, a certificate or a key. */
  static parse(this: void, text: string, certified = false): Endpoint {
    if (text.startsWith("unix:/")) {
      return new Endpoint(text, false);
    }
    const [, scheme, rest = ""] = /^(?:(https?):\/\/)?(.*?)\/*$/s.exec(text) ?? [];
    const port = Number(HOST_PORT.exec(rest)?.[2] ?? 0);
    if (port < 1 || port > 65535) {
      throw new ConfigError(
        `endpoint ${JSON.stringify(text)}: it must be HOST:PORT, https://HOST:PORT or unix:/PATH, such as 127.0.0.1:7600`,
      );
    }
    return new Endpoint(rest, scheme === undefined ? certified : scheme === "https");
  }

  get isUnix(): boolean {
    return this.target.startsWith("unix:");
  }

  /** Whether the endpoint is on this machine or uses TLS. Otherwise, a token could be read on the network. */
  get isPrivate(): boolean {
    if (this.tls || this.isUnix) {
      return true;
    }
    const host = this.target.slice(0, this.target.lastIndexOf(":")).replace(/^\[|\]$/g, "");
    const family = isIP(host);
    return host === "localhost" || (family !== 0 && LOOPBACK.check(host, family === 6 ? "ipv6" : "ipv4"));
  }
}

const LOOK_EVERY_MS = 1000;

/** The token that is sent with each call. A token file is read again when it changes. */
export class Token {
  readonly #file: string | undefined;
  #looked = performance.now();
  #stamp = "";
  #header: string | undefined;

  constructor(text: string | undefined, file: string | undefined) {
    check("token", "left out if there is a tokenFile", text === undefined || file === undefined);
    this.#file = file;
    if (text !== undefined) {
      this.#header = bearer(text);
    } else if (file !== undefined) {
      this.#stamp = reading("tokenFile", () => stamp(file)); // Before the text, to detect a change in between later.
      this.#header = bearer(reading("tokenFile", () => readFileSync(file, "utf8")));
    }
  }

  get isSet(): boolean {
    return this.#header !== undefined;
  }

  /** The header for the next call. Checks the file at most once per second, or immediately with `now`. */
  header(now = false): string | undefined {
    const file = this.#file;
    if (file !== undefined && (now || performance.now() - this.#looked >= LOOK_EVERY_MS)) {
      this.#looked = performance.now();
      try {
        const found = stamp(file);
        if (found !== this.#stamp) {
          this.#header = bearer(readFileSync(file, "utf8"));
          this.#stamp = found;
        }
      } catch {
        // While the file is being replaced, the previous token stays in use.
      }
    }
    return this.#header;
  }

  /** The metadata for the next call. */
  metadata(): Metadata {
    const metadata = new Metadata();
    const header = this.header();
    if (header !== undefined) {
      metadata.set("authorization", header);
    }
    return metadata;
  }
}

function stamp(file: string): string {
  const { dev, ino, size, ctimeNs } = statSync(file, { bigint: true });
  return [dev, ino, size, ctimeNs].join();
}

function bearer(text: string): string {
  const token = text.trim();
  if (!/^kent_[A-Za-z0-9_-]{1,995}$/.test(token)) {
    throw new ConfigError(
      "a token is kent_ID_SECRET, as `kent token create` prints it; a token file contains nothing else",
    );
  }
  return `Bearer ${token}`;
}

function secure(options: ClientOptions): ChannelCredentials {
  const ca = pem("ca", options.ca, "CERTIFICATE");
  const cert = pem("cert", options.cert, "CERTIFICATE");
  const key = pem("key", options.key, "PRIVATE KEY");
  return reading("ca, cert and key", () => credentials.createSsl(ca, key, cert));
}

function pem(name: string, value: Pem | undefined, what: string): Buffer | null {
  if (value === undefined) {
    return null;
  }
  const found = typeof value === "string" ? reading(name, () => readFileSync(value)) : Buffer.from(value);
  check(name, `PEM with a ${what}`, found.includes(`${what}-----`));
  return found;
}

function reading<T>(name: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new ConfigError(`${name}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}
