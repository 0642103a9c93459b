// A source: returns the identifiers of its stock, and prefetches the next block.

import type { Attempts } from "./calls.js";
import { Closed, ConfigError, KentError, Refused, Unusable } from "./errors.js";
import type { Settings } from "./settings.js";
import { type Ids, type Kind, Moment, Stock } from "./stock.js";

/** The maximum number of moves to an heir within one fetch. An heir is rarely closed before it is used. */
const MOVES_MAX = 16;
/** While a fetch is in progress, the event loop runs once after this many calls to `next`. */
const TURN_EVERY = 128;

/** The timeout of a call. */
export interface Timeout {
  /** Default: the client's `requestTimeoutMs`. */
  timeoutMs?: number | undefined;
}

/** A fetch in progress. */
export interface Fetched<Result> {
  readonly ids: Promise<Result>;
  readonly attempts: Attempts;
}

type Allocate<T> = (source: string, count: number, deadline: number, requestId?: string) => Fetched<Ids<T>>;

/** A fetch for the stock. */
class Fetching {
  done: Promise<void> = Promise.resolve();
  attempts: Attempts | undefined;

  constructor(readonly deadline: number) {}
}

/** A source with a stock of prefetched identifiers, for any number of tasks. A client has one source for each name. */
export class Source<T> implements AsyncIterable<T> {
  #name: string;
  /**
   * The name that the caller gave. Requests with a request ID use this name even after a move to an heir, because the
   * heir would grant them again.
   */
  readonly #first: string;
  readonly #stock: Stock<T>;
  readonly #settings: Settings;
  readonly #allocate: Allocate<T>;
  #fetching: Fetching | undefined;
  #calls = 0;

  /** @internal */
  constructor(name: string, kind: Kind<T>, settings: Settings, allocate: Allocate<T>) {
    this.#name = name;
    this.#first = name;
    this.#stock = new Stock(kind, settings.sizes);
    this.#settings = settings;
    this.#allocate = allocate;
  }

  /** The name of the source. With `followHeirs`, the name of the heir once the region is closed. */
  get name(): string {
    return this.#name;
  }

  /** The number of prefetched identifiers. */
  get inHand(): number {
    return this.#stock.inHand;
  }

  /**
   * The next identifier. Waits only if none is prefetched.
   *
   * @throws {@link Refused} if the daemon refuses the request, for example for a sealed region.
   * @throws {@link Limited} if the caller's limit is used up for longer than the timeout.
   * @throws {@link Unavailable} if no daemon granted a block in time.
   */
  next(options?: Timeout): Promise<T> {
    const id = this.#pop();
    if (id === undefined) {
      return this.#wait(this.#deadline(options));
    }
    if (this.#fetching !== undefined && ++this.#calls % TURN_EVERY === 0) {
      // A loop of `await next()` would otherwise keep the reply from being read until the stock is used up.
      return new Promise((resolve) => setImmediate(resolve, id));
    }
    return Promise.resolve(id);
  }

  /**
   * The next identifier if one is prefetched. Otherwise, starts a fetch.
   *
   * @throws {@link Closed} if the client is closed.
   */
  tryNext(): T | undefined {
    const id = this.#pop();
    if (id === undefined) {
      this.#refill();
    }
    return id;
  }

  /** `count` identifiers, prefetched ones first. If the call fails, the identifiers already taken leave a gap. */
  async take(count: number, options?: Timeout): Promise<T[]> {
    const deadline = this.#deadline(options);
    const taken: T[] = [];
    checkCount(count, 0);
    while (taken.length < count) {
      const id = this.#pop();
      if (id !== undefined) {
        taken.push(id);
        continue;
      }
      const ids = await this.#fetch(Math.min(count - taken.length, this.#stock.sizeMax), deadline);
      while (ids.left > 0) {
        taken.push(ids.next());
      }
    }
    return taken;
  }

  /**
   * One grant from a strict region. Another call with the same `requestId` returns the same identifiers. Use a version
   * 7 UUID as the request ID.
   */
  async fetch(count: number, { requestId, ...options }: Timeout & { requestId: string }): Promise<T[]> {
    checkCount(count, 1);
    if (typeof requestId !== "string" || requestId === "") {
      throw new ConfigError("requestId must be a non-empty string");
    }
    const ids = await this.#allocate(this.#first, count, this.#deadline(options), requestId).ids;
    return Array.from({ length: ids.left }, () => ids.next());
  }

  /** An endless sequence of identifiers. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, never, undefined> {
    for (;;) {
      yield await this.next();
    }
  }

  /** Drops all prefetched identifiers. @internal */
  drop(): void {
    this.#stock.close();
  }

  #deadline(options: Timeout | undefined): number {
    return performance.now() + (options?.timeoutMs ?? this.#settings.requestTimeoutMs);
  }

  /** The next prefetched identifier. Starts a fetch when few are left. */
  #pop(): T | undefined {
    const id = this.#stock.pop();
    if (id !== undefined && this.#stock.isLow()) {
      this.#refill();
    }
    return id;
  }

  async #wait(deadline: number): Promise<T> {
    for (;;) {
      const id = this.#pop();
      if (id !== undefined) {
        return id;
      }
      const fetching = this.#refill(deadline);
      try {
        await before(deadline, fetching);
      } catch (error) {
        // The fetch of another caller may fail before this caller's deadline.
        const mayRetry = error instanceof KentError && error.isRetryable && fetching.deadline < deadline;
        if (!mayRetry || performance.now() >= deadline) {
          throw error;
        }
      }
    }
  }

  /** Starts a fetch if none is in progress. */
  #refill(deadline = 0): Fetching {
    if (this.#fetching !== undefined) {
      return this.#fetching;
    }
    if (this.#stock.closed) {
      throw new Closed();
    }
    const asked = new Moment();
    const fetching = new Fetching(Math.max(deadline, this.#deadline(undefined)));
    this.#fetching = fetching;
    fetching.done = this.#fetch(this.#stock.nextSize(), fetching.deadline, fetching)
      .then((ids) => this.#stock.add(ids, asked))
      .finally(() => {
        this.#fetching = undefined;
      });
    fetching.done.catch(() => undefined); // The next caller makes its own attempt.
    return fetching;
  }

  async #fetch(count: number, deadline: number, fetching?: Fetching): Promise<Ids<T>> {
    for (let move = 0; move < MOVES_MAX; move++) {
      const { ids, attempts } = this.#allocate(this.#name, count, deadline);
      if (fetching !== undefined) {
        fetching.attempts = attempts;
      }
      try {
        return await ids;
      } catch (error) {
        if (!(error instanceof Refused) || error.heir === undefined || !this.#settings.followHeirs) {
          throw error;
        }
        this.#name = error.heir;
      }
    }
    throw new Unusable(`${this.#name} is closed, as are its heirs`);
  }
}

/** Waits for a fetch, but only until the deadline. */
function before(deadline: number, fetching: Fetching): Promise<void> {
  return new Promise((resolve, reject) => {
    const late = () => reject(fetching.attempts?.late(deadline) ?? new Unusable("no attempt was made"));
    const timer = setTimeout(late, Math.min(deadline - performance.now(), 2 ** 31 - 1));
    fetching.done.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

function checkCount(count: number, least: number): void {
  if (!Number.isSafeInteger(count) || count < least) {
    throw new ConfigError(`count must be a whole number of at least ${least}`);
  }
}
