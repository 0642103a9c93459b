// The stock of a source: prefetched identifiers, their age, and how many to fetch next. This module makes no calls.

import { Unusable } from "./errors.js";
import type { Sizes } from "./settings.js";
import { type AllocateResponse, Encoding } from "./stubs/kent/v1/allocator.js";

/**
 * A block should last about this long. If the last block lasted less, the size doubles. If it lasted over ten times as
 * long, the size halves.
 */
const LASTS_MS = 1000;
/** The maximum number of identifiers that a daemon returns as text in one call. */
const TEXTS_MAX = 10_000;

/** Identifiers that were granted together, and are converted to their final form one by one. */
export interface Ids<T> {
  /** The number of identifiers left. */
  readonly left: number;
  /** The next identifier. The caller has checked that one is left. */
  next(): T;
}

/** How the identifiers of a source are encoded in replies, and how to read them. */
export interface Kind<T> {
  readonly encoding: Encoding;
  /** Whether identifiers expire, because they contain a timestamp. */
  readonly ages: boolean;
  /** Whether fencing tokens belong to slots of the cluster, not to the source. */
  readonly hasSlots: boolean;
  readonly read: (reply: AllocateResponse) => Ids<T>;
}

/** UUIDs are converted to hexadecimal digits in chunks of this many bytes, because one long conversion costs less. */
const CHUNK = 1024;

class Uuids implements Ids<string> {
  left: number;
  readonly #data: Buffer;
  readonly #view: DataView;
  #at = 0;
  #hex = "";
  #hexAt = 0;
  // Consecutive UUIDs usually begin with the same eight bytes, so the text of these bytes is cached.
  #high = 0;
  #low = 0;
  #head = "00000000-0000-0000-";

  constructor(data: Buffer) {
    this.left = data.length / 16;
    this.#data = data;
    this.#view = new DataView(data.buffer, data.byteOffset, data.length);
  }

  next(): string {
    const at = this.#at;
    if (this.#hexAt === this.#hex.length) {
      this.#hex = this.#data.toString("hex", at, at + CHUNK);
      this.#hexAt = 0;
    }
    const hex = this.#hex;
    const digit = this.#hexAt;
    this.#at = at + 16;
    this.#hexAt = digit + 32;
    this.left -= 1;
    const high = this.#view.getInt32(at);
    const low = this.#view.getInt32(at + 4);
    if (high !== this.#high || low !== this.#low) {
      this.#high = high;
      this.#low = low;
      this.#head = `${hex.slice(digit, digit + 8)}-${hex.slice(digit + 8, digit + 12)}-${hex.slice(digit + 12, digit + 16)}-`;
    }
    // V8 copies strings of up to 12 digits, so an identifier does not keep the digits of the whole chunk in memory.
    const middle = `${hex.slice(digit + 16, digit + 20)}-`;
    const end = hex.slice(digit + 20, digit + 32);
    return this.#head + (middle + end);
  }
}

class Numbers implements Ids<bigint> {
  left: number;
  readonly #data: Buffer;
  readonly #width: number;
  #at = 0;

  constructor(data: Buffer, width: number) {
    this.left = data.length / width;
    this.#data = data;
    this.#width = width;
  }

  next(): bigint {
    let at = this.#at;
    const end = at + this.#width;
    this.left -= 1;
    this.#at = end;
    if (end - at === 8) {
      return this.#data.readBigUInt64BE(at);
    }
    let value = 0n;
    while (at < end) {
      const bytes = Math.min(6, end - at); // A JavaScript number holds up to six bytes exactly.
      value = (value << BigInt(8 * bytes)) | BigInt(this.#data.readUIntBE(at, bytes));
      at += bytes;
    }
    return value;
  }
}

class Texts implements Ids<string> {
  left: number;
  readonly #ids: readonly string[];

  constructor(ids: readonly string[]) {
    this.left = ids.length;
    this.#ids = ids;
  }

  next(): string {
    return this.#ids[this.#ids.length - this.left--] as string;
  }
}

function packed(reply: AllocateResponse): { width: number; data: Buffer } {
  const { width, data } = reply.identifiers?.$case === "packed" ? reply.identifiers.value : { width: 0, data: null };
  if (data === null || width < 1 || data.length % width !== 0) {
    throw new Unusable("the daemon returned no packed identifiers");
  }
  return { width, data };
}

function readUuids(reply: AllocateResponse): Ids<string> {
  const { width, data } = packed(reply);
  if (width !== 16) {
    throw new Unusable(`identifiers of ${width} bytes are not UUIDs`);
  }
  return new Uuids(data);
}

function readNumbers(reply: AllocateResponse): Ids<bigint> {
  const { width, data } = packed(reply);
  return new Numbers(data, width);
}

function readTexts(reply: AllocateResponse): Ids<string> {
  if (reply.identifiers?.$case !== "text") {
    throw new Unusable("the daemon returned no identifiers as text");
  }
  return new Texts(reply.identifiers.value.ids);
}

const OF_SLOT = { ages: true, hasSlots: true } as const;
const LASTING = { ages: false, hasSlots: false } as const;
export const UUID_OF_SLOT: Kind<string> = { encoding: Encoding.PACKED, read: readUuids, ...OF_SLOT };
export const UUID_OF_SERIES: Kind<string> = { encoding: Encoding.PACKED, read: readUuids, ...LASTING };
export const TEXT_OF_SLOT: Kind<string> = { encoding: Encoding.TEXT, read: readTexts, ...OF_SLOT };
export const TEXT_OF_SERIES: Kind<string> = { encoding: Encoding.TEXT, read: readTexts, ...LASTING };
export const NUMBER: Kind<bigint> = { encoding: Encoding.PACKED, read: readNumbers, ...LASTING };

/** The kind of the source with this name. */
export function kindOf(source: string): Kind<string> | Kind<bigint> {
  if (source.startsWith("region:")) {
    return NUMBER;
  }
  if (source.startsWith("serial:")) {
    return UUID_OF_SERIES;
  }
  if (source.startsWith("uuid")) {
    return UUID_OF_SLOT;
  }
  return source === "uid11-fullrand" ? TEXT_OF_SERIES : TEXT_OF_SLOT;
}

/** The identifiers of a reply to a request for `count` identifiers. */
export function granted<T>(kind: Kind<T>, reply: AllocateResponse, count: number): Ids<T> {
  const ids = kind.read(reply);
  if (ids.left < 1 || ids.left > count) {
    throw new Unusable(`requested ${count} identifiers, got ${ids.left}`);
  }
  return ids;
}

/**
 * A moment on two clocks. The monotonic clock stops while the machine is suspended. The wall clock continues, but can
 * be set back. An identifier that is too old by either clock counts as too old.
 */
export class Moment {
  readonly #wall = Date.now();
  readonly #monotonic = performance.now();
  #checked = 0;

  /** Whether this many milliseconds have passed. */
  isOlderThan(ms: number): boolean {
    const now = Date.now();
    if (now === this.#checked) {
      return false; // A check in the same millisecond found that it was not too old.
    }
    if (now - this.#wall > ms || performance.now() - this.#monotonic > ms) {
      return true;
    }
    this.#checked = now;
    return false;
  }
}

interface Block<T> {
  readonly ids: Ids<T>;
  readonly asked: Moment;
  /** The next block is fetched when this many identifiers are left. Below 0 once that fetch has started. */
  mark: number;
}

/** The blocks of one source. */
export class Stock<T> {
  /** The size of the largest block. */
  readonly sizeMax: number;
  readonly #kind: Kind<T>;
  readonly #sizes: Sizes;
  #block: Block<T> | undefined;
  #next: Block<T> | undefined;
  #size: number;
  #askedLast = Number.NEGATIVE_INFINITY;
  #closed = false;

  constructor(kind: Kind<T>, sizes: Sizes) {
    this.#kind = kind;
    this.#sizes = sizes;
    this.sizeMax = Math.min(sizes.blockSizeMax, kind.encoding === Encoding.TEXT ? TEXTS_MAX : 200_000);
    this.#size = Math.min(sizes.blockSize, this.sizeMax);
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Drops all prefetched identifiers, and all blocks that are added later. */
  close(): void {
    this.#closed = true;
    this.#block = undefined;
    this.#next = undefined;
  }

  /** The next prefetched identifier that is not too old, if there is one. */
  pop(): T | undefined {
    for (let block = this.#block; block !== undefined; block = this.#advance()) {
      if (block.ids.left > 0 && !(this.#kind.ages && block.asked.isOlderThan(this.#sizes.maxAgeMs))) {
        return block.ids.next();
      }
    }
    return undefined;
  }

  #advance(): Block<T> | undefined {
    this.#block = this.#next;
    this.#next = undefined;
    return this.#block;
  }

  /** Whether the block in use is at its mark and no other block is prefetched. True only once per block. */
  isLow(): boolean {
    const block = this.#block;
    if (block === undefined || block.ids.left > block.mark || this.#next !== undefined) {
      return false;
    }
    block.mark = -1;
    return true;
  }

  /** The size of the block to fetch now. */
  nextSize(now = performance.now()): number {
    const lasted = now - this.#askedLast;
    if (lasted < LASTS_MS) {
      this.#size = Math.min(this.#size * 2, this.sizeMax);
    } else if (lasted > 10 * LASTS_MS && this.#askedLast >= 0) {
      this.#size = Math.max(Math.floor(this.#size / 2), Math.min(this.#sizes.blockSize, this.sizeMax));
    }
    this.#askedLast = now;
    return this.#size;
  }

  /** Adds a block that was requested at `asked`. */
  add(ids: Ids<T>, asked: Moment): void {
    const block = { ids, asked, mark: Math.floor(ids.left * this.#sizes.lowWater) };
    if (this.#closed) {
      return;
    }
    if (this.#block === undefined || this.#block.ids.left === 0) {
      this.#block = block;
    } else {
      this.#next = block; // There is one fetch at a time, and none while another block is prefetched.
    }
  }

  /** The number of prefetched identifiers. */
  get inHand(): number {
    return (this.#block?.ids.left ?? 0) + (this.#next?.ids.left ?? 0);
  }
}

/** The highest fencing tokens that a client has seen. */
export class Fences {
  readonly #highest = new Map<string, bigint>();

  /** Records the token of a reply. Returns false if a higher token was already seen for the same slot or region. */
  admit(kind: Kind<unknown>, source: string, reply: AllocateResponse): boolean {
    const part = reply.identifiers;
    if (part === undefined || part.$case === "lease" || part.value.fenceToken === 0n) {
      return true;
    }
    // A slot belongs to the whole cluster, but the number of a region is unique only in its space.
    const subject = `${part.value.fenceSubject} ${kind.hasSlots ? "" : source}`;
    const highest = this.#highest.get(subject) ?? 0n;
    if (part.value.fenceToken < highest) {
      return false;
    }
    this.#highest.set(subject, part.value.fenceToken);
    return true;
  }
}
