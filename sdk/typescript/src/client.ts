// The client: its sources, its connections, and its requests for blocks.

import {
  type Channel,
  type ChannelCredentials,
  credentials,
  InterceptingCall,
  type Interceptor,
  type Metadata,
  type ClientOptions as StubOptions,
} from "@grpc/grpc-js";
import { Attempts, Connections, type UnaryMethod } from "./calls.js";
import { RpcFailure } from "./errors.js";
import { type ClientOptions, type Settings, settings } from "./settings.js";
import { type Fetched, Source } from "./source.js";
import { Fences, granted, type Ids, type Kind, kindOf, NUMBER, TEXT_OF_SLOT, UUID_OF_SLOT } from "./stock.js";
import { AllocateRequest, AllocatorService } from "./stubs/kent/v1/allocator.js";

/**
 * A client of Kent. Use one client per process: all its sources share its connections.
 *
 * ```ts
 * const client = new Client("127.0.0.1:7600");
 * const id = await client.uuidV7().next();
 * ```
 */
export class Client {
  readonly #settings: Settings;
  readonly #connections: Connections;
  readonly #fences = new Fences();
  readonly #sources = new Map<string, Source<string> | Source<bigint>>();

  /**
   * @param endpoints `HOST:PORT`, `https://HOST:PORT` or `unix:/PATH`, or several of them. The first is preferred, and
   * the others are used while it fails. `HOST:PORT` uses TLS if there is a `ca` or a `cert`.
   * @throws `ConfigError` if an argument is invalid.
   */
  constructor(endpoints: string | readonly string[] = "127.0.0.1:7600", options: ClientOptions = {}) {
    this.#settings = settings(endpoints, options);
    this.#connections = new Connections(this.#settings);
  }

  /** Version 7 UUIDs, which are ordered by time. */
  uuidV7(): Source<string> {
    return this.#source("uuidv7", UUID_OF_SLOT);
  }

  /** Version 6 UUIDs, which are version 1 UUIDs with the timestamp first. */
  uuidV6(): Source<string> {
    return this.#source("uuidv6", UUID_OF_SLOT);
  }

  /** xids, which have 11 characters and are ordered by time. */
  xid(): Source<string> {
    return this.#source("xid", TEXT_OF_SLOT);
  }

  /** The numbers of a region. */
  region(name: string, space = "default"): Source<bigint> {
    return this.#source(space === "default" ? `region:${name}` : `region:${name}@${space}`, NUMBER);
  }

  /** The source with this name, which `kent alloc` also accepts, such as `serial:GBP`. */
  source(name: `region:${string}`): Source<bigint>;
  source(name: `serial:${string}` | `uuid${string}` | `uid11-${string}` | `layout:${string}` | "xid"): Source<string>;
  source(name: string): Source<string | bigint>;
  source(name: string): Source<string | bigint> {
    return this.#source<string | bigint>(name, kindOf(name));
  }

  /** The channel to the endpoint in use, for your own stubs. Pass {@link metadata} to their calls. */
  channel(): Channel {
    return this.#connections.client(this.#connections.endpoints.current()).getChannel() as Channel;
  }

  /** The metadata with the token, for your own stubs. */
  metadata(): Metadata {
    return this.#settings.token.metadata();
  }

  /**
   * A stub of `kent-client/v1`, such as `RegionsClient`, on the channel to the endpoint in use. The stub sends the
   * token.
   *
   * ```ts
   * const regions = client.stub(RegionsClient);
   * ```
   */
  stub<Stub>(type: new (address: string, credentials: ChannelCredentials, options: StubOptions) => Stub): Stub {
    const withToken: Interceptor = (options, next) =>
      new InterceptingCall(next(options), {
        start: (metadata, listener, start) => {
          metadata.merge(this.metadata());
          start(metadata, listener);
        },
      });
    const options = { channelOverride: this.channel(), interceptors: [withToken] };
    return new type("", credentials.createInsecure(), options);
  }

  /**
   * Calls a method of `kent-client/v1` once, without retries.
   *
   * ```ts
   * const reply = await client.call(CodecService.inspect, InspectRequest.create({ text: id }));
   * ```
   *
   * @throws {@link RpcFailure} with the daemon's code and reason.
   */
  async call<Request, Reply>(
    method: UnaryMethod<Request, Reply>,
    request: Request,
    { timeoutMs = this.#settings.requestTimeoutMs }: { timeoutMs?: number } = {},
  ): Promise<Reply> {
    const connections = this.#connections;
    try {
      return await connections.call(connections.endpoints.current(), method, request, timeoutMs, this.metadata());
    } catch (error) {
      throw RpcFailure.is(error) ? new RpcFailure(error) : error;
    }
  }

  /** Closes the connections. Calls in progress end with `Closed`. Prefetched identifiers are dropped. */
  close(): void {
    this.#connections.close();
    for (const source of this.#sources.values()) {
      source.drop();
    }
  }

  /** Calls {@link close}, for `using client = new Client()`. */
  [Symbol.dispose](): void {
    this.close();
  }

  #source<T extends string | bigint>(name: string, kind: Kind<string> | Kind<bigint>): Source<T> {
    let found = this.#sources.get(name) as Source<T> | undefined;
    if (found === undefined) {
      const allocate = (source: string, count: number, deadline: number, requestId?: string) =>
        this.#allocate(source, kind as Kind<T>, count, deadline, requestId);
      found = new Source(name, kind as Kind<T>, this.#settings, allocate);
      if (this.#connections.closed) {
        found.drop();
      }
      this.#sources.set(name, found as Source<string> | Source<bigint>);
    }
    return found;
  }

  /** Fetches a block. Tries one endpoint after another. */
  #allocate<T>(source: string, kind: Kind<T>, count: number, deadline: number, requestId = ""): Fetched<Ids<T>> {
    const { token, attemptTimeoutMs } = this.#settings;
    const connections = this.#connections;
    const attempts = new Attempts(connections.endpoints, token, attemptTimeoutMs, deadline);
    const request = AllocateRequest.create({ source, count: BigInt(count), encoding: kind.encoding, requestId });
    const run = async () => {
      for (;;) {
        const index = connections.endpoints.current();
        const timeoutMs = attempts.timeoutMs();
        let wait: number;
        try {
          const metadata = attempts.metadata();
          const reply = await connections.call(index, AllocatorService.allocate, request, timeoutMs, metadata);
          // A retry with a request ID returns the block of the first grant, whose token can be lower than one already
          // seen.
          if (this.#fences.admit(kind, source, reply) || requestId !== "") {
            return granted(kind, reply, count);
          }
          wait = attempts.afterRejected(index);
        } catch (error) {
          if (!RpcFailure.is(error)) {
            throw error;
          }
          wait = attempts.after(index, error);
        }
        if (wait > 0) {
          await connections.pause(wait);
        }
      }
    };
    return { ids: run(), attempts };
  }
}
