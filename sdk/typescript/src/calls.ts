// The state that all sources of a client share: the connections, the endpoint of the next attempt, and the wait before
// that attempt.

import { type CallOptions, Client, credentials, type Metadata, type ServiceError } from "@grpc/grpc-js";
import { Closed, Fenced, type KentError, Limited, Refused, RpcFailure, Unavailable, Unusable } from "./errors.js";
import type { Endpoint, Settings, Token } from "./settings.js";

/** After this time, the client tries its first endpoint again. */
const RETURN_AFTER_MS = 30_000;
const PAUSE_MIN_MS = 20;
const PAUSE_MAX_MS = 1000;
/** The pause after a block from a replica that lags behind. */
const LAG_MS = 20;
/** After this many rejected blocks in a row, the request fails. */
const REJECTED_MAX = 300;

/** By default, gRPC's pause before a reconnect grows to two minutes. The client has its own backoff instead. */
const CHANNEL_OPTIONS = {
  "grpc.initial_reconnect_backoff_ms": 50,
  "grpc.min_reconnect_backoff_ms": 50,
  "grpc.max_reconnect_backoff_ms": 500,
  "grpc.max_receive_message_length": 64 << 20,
  // Node's default of 64 KB interrupts the transfer of a large block some twenty times.
  "grpc-node.flow_control_window": 4 << 20,
  "grpc.enable_retries": 0,
  "grpc.service_config_disable_resolution": 1,
  "grpc.use_local_subchannel_pool": 1,
  // Detect connections that the network has dropped silently.
  "grpc.keepalive_time_ms": 20_000,
  "grpc.keepalive_timeout_ms": 5000,
};

/** A unary method, as the generated services define it. */
export interface UnaryMethod<Request, Reply> {
  readonly path: string;
  readonly requestStream: false;
  readonly responseStream: false;
  readonly requestSerialize: (request: Request) => Buffer;
  readonly responseDeserialize: (reply: Buffer) => Reply;
}

/** The endpoints of a client, and the choice between them. */
export class Endpoints {
  readonly #all: readonly Endpoint[];
  #current = 0;
  #leftFirst = 0;

  constructor(all: readonly Endpoint[]) {
    this.#all = all;
  }

  get length(): number {
    return this.#all.length;
  }

  at(index: number): Endpoint {
    return this.#all[index] as Endpoint;
  }

  /** The index of the endpoint for the next attempt. */
  current(now = performance.now()): number {
    if (this.#current !== 0 && now - this.#leftFirst >= RETURN_AFTER_MS) {
      this.#current = 0;
    }
    return this.#current;
  }

  /** Switches to the next endpoint, unless another call has already done so. */
  leave(index: number, now = performance.now()): void {
    if (this.#current === index) {
      this.#current = (index + 1) % this.#all.length;
      if (index === 0) {
        this.#leftFirst = now;
      }
    }
  }
}

/** The connections of a client, and the calls and pauses in progress. */
export class Connections {
  readonly endpoints: Endpoints;
  readonly #settings: Settings;
  readonly #clients = new Map<number, Client>();
  readonly #ends = new Set<() => void>();
  #closed = false;

  constructor(settings: Settings) {
    this.#settings = settings;
    this.endpoints = new Endpoints(settings.endpoints);
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** The connection to an endpoint. */
  client(index: number): Client {
    if (this.#closed) {
      throw new Closed();
    }
    let client = this.#clients.get(index);
    if (client === undefined) {
      const { tls, target } = this.endpoints.at(index);
      const secure = (tls ? this.#settings.secure : undefined) ?? credentials.createInsecure();
      client = new Client(target, secure, CHANNEL_OPTIONS);
      this.#clients.set(index, client);
    }
    return client;
  }

  /** Makes one call. Rejects with gRPC's error, or with {@link Closed} if the client is closed in the meantime. */
  call<Request, Reply>(
    index: number,
    method: UnaryMethod<Request, Reply>,
    request: Request,
    timeoutMs: number,
    metadata: Metadata,
  ): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const { path, requestSerialize, responseDeserialize } = method;
      const options: CallOptions = { deadline: Date.now() + timeoutMs };
      const done = (error: ServiceError | null, reply?: Reply) => {
        this.#ends.delete(end);
        if (error === null) {
          resolve(reply as Reply);
        } else {
          reject(this.#closed ? new Closed() : error);
        }
      };
      const client = this.client(index);
      const call = client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        metadata,
        options,
        done,
      );
      const end = () => call.cancel();
      this.#ends.add(end);
    });
  }

  /** Waits. Rejects with {@link Closed} if the client is closed in the meantime. */
  pause(ms: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(timer);
        reject(new Closed());
      };
      const timer = setTimeout(() => {
        this.#ends.delete(end);
        resolve();
      }, ms);
      this.#ends.add(end);
    });
  }

  /** Ends everything in progress. */
  close(): void {
    this.#closed = true;
    for (const end of this.#ends) {
      end();
    }
    this.#ends.clear();
    for (const client of this.#clients.values()) {
      client.close();
    }
    this.#clients.clear();
  }
}

/** The attempts of one request, until its deadline. Makes no calls and does not wait. */
export class Attempts {
  /** The last error of each endpoint. */
  readonly tried = new Map<string, KentError>();
  /** The deadline of the request, as a time of `performance.now()`. */
  readonly deadline: number;
  readonly #endpoints: Endpoints;
  readonly #token: Token;
  readonly #attemptTimeoutMs: number;
  /** The header with the token that the last attempt sent. */
  #sent: string | undefined;
  #withoutPause: number;
  #pauseMs = PAUSE_MIN_MS;
  #rejected = 0;
  #limited: { readonly error: Limited; readonly until: number } | undefined;

  constructor(endpoints: Endpoints, token: Token, attemptTimeoutMs: number, deadline: number) {
    this.#endpoints = endpoints;
    this.#token = token;
    this.#attemptTimeoutMs = attemptTimeoutMs;
    this.#withoutPause = endpoints.length - 1;
    this.deadline = deadline;
  }

  /** The timeout of the next attempt. */
  timeoutMs(): number {
    const left = this.deadline - performance.now();
    if (left <= 0) {
      throw this.late(this.deadline);
    }
    this.#limited = undefined;
    return Math.min(left, this.#attemptTimeoutMs);
  }

  /** The metadata for the next attempt. */
  metadata(): Metadata {
    this.#sent = this.#token.header();
    return this.#token.metadata();
  }

  /** The error for a caller whose own deadline has passed. */
  late(deadline: number): KentError {
    return this.#limited !== undefined && this.#limited.until >= deadline
      ? this.#limited.error
      : new Unavailable(this.tried);
  }

  /** How long to wait after a failed attempt. Throws the final error if another attempt cannot help. */
  after(index: number, error: ServiceError): number {
    const failure = new RpcFailure(error);
    if (!failure.isTransient) {
      if (failure.code === "UNAUTHENTICATED" && this.#hasOtherToken()) {
        return 0;
      }
      throw new Refused(error);
    }
    // A daemon that reports a limit is healthy, so another daemon would not help.
    if (failure.code !== "RESOURCE_EXHAUSTED") {
      this.#endpoints.leave(index);
    }
    this.tried.set(this.#endpoints.at(index).target, failure);
    const wait = failure.retryAfterMs ?? this.backoffMs();
    if (failure.reason === "LIMIT") {
      this.#limited = { error: new Limited(error), until: performance.now() + wait };
    }
    return this.#within(wait);
  }

  /** How long to wait after a block with a fencing token lower than one already seen. */
  afterRejected(index: number): number {
    this.#rejected += 1;
    if (this.#rejected >= REJECTED_MAX) {
      throw new Fenced(`${this.#rejected} blocks in a row were older than one already seen: make a new client`);
    }
    this.tried.set(this.#endpoints.at(index).target, new Unusable("its block was older than one already seen"));
    this.#endpoints.leave(index);
    return this.#within(LAG_MS);
  }

  /** The pause before the next attempt: none while there are other endpoints to try, and then a growing time. */
  backoffMs(): number {
    if (this.#withoutPause > 0) {
      this.#withoutPause -= 1;
      return 0;
    }
    const pause = this.#pauseMs * (1 + Math.random());
    this.#pauseMs = Math.min(this.#pauseMs * 2, PAUSE_MAX_MS);
    return pause;
  }

  /** Whether the token has changed since the last attempt. */
  #hasOtherToken(): boolean {
    const before = this.#sent;
    this.#sent = this.#token.header(true);
    return before !== this.#sent;
  }

  #within(ms: number): number {
    if (performance.now() + ms >= this.deadline) {
      throw this.late(this.deadline);
    }
    return ms;
  }
}
