import { Code, ConnectError } from "@connectrpc/connect";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { FiguresOfSecond } from "../gen/kent/v1/admin_pb.ts";
import type { Refused } from "./refused.ts";
import { type Channel, FIGURES, type Listener, type Means, type News, Shared, type Wanted } from "./shared.ts";

/** Locks as in a browser: an exclusive lock has one holder and the others wait; nobody waits for a shared lock. */
class FakeLocks {
  readonly held: { name: string }[] = [];
  readonly #waiting = new Map<string, Promise<unknown>>();

  async request(name: string, { mode, signal }: LockOptions, hold: () => Promise<void>): Promise<void> {
    const before = mode === "shared" ? undefined : this.#waiting.get(name);
    let done = () => {};
    if (mode !== "shared") this.#waiting.set(name, new Promise<void>((resolve) => (done = resolve)));
    await before;
    if (!signal?.aborted) {
      const lock = { name };
      this.held.push(lock);
      await hold();
      this.held.splice(this.held.indexOf(lock), 1);
    }
    done();
  }

  async query(): Promise<LockManagerSnapshot> {
    return { held: [...this.held] };
  }
}

/** A browser, and the streams that its tabs have opened. */
class FakeBrowser {
  readonly locks = new FakeLocks();
  readonly streams: FakeStream[] = [];
  readonly channels = new Set<Channel>();
  isHidden = false;
  signedOut = 0;

  tab(hasLocks = true): Shared {
    const means: Means = {
      name: "kent /",
      shared: hasLocks ? { locks: this.locks as unknown as LockManager, channel: this.#channel() } : undefined,
      open: (wanted, signal) => {
        const stream = new FakeStream(wanted, signal);
        this.streams.push(stream);
        return stream.read();
      },
      isHidden: () => this.isHidden,
      signedOut: () => this.signedOut++,
    };
    return new Shared(means);
  }

  /** The streams that are open. */
  get open(): FakeStream[] {
    return this.streams.filter(({ isOpen }) => isOpen);
  }

  /** The only stream that is open. */
  get stream(): FakeStream {
    expect(this.open.length).toBe(1);
    return this.open[0] as FakeStream;
  }

  #channel(): Channel {
    const channel: Channel = {
      onmessage: null,
      postMessage: (message) => {
        const copy = structuredClone(message);
        for (const other of this.channels) {
          if (other !== channel) queueMicrotask(() => other.onmessage?.({ data: copy } as MessageEvent));
        }
      },
      close: () => this.channels.delete(channel),
    };
    this.channels.add(channel);
    return channel;
  }
}

class FakeStream {
  readonly wanted: Wanted;
  isOpen = true;
  #news: (News | Error)[] = [];
  #wake = () => {};

  constructor(wanted: Wanted, signal: AbortSignal) {
    this.wanted = wanted;
    signal.addEventListener("abort", () => this.say(new Error("aborted")));
  }

  async say(...news: (News | Error)[]): Promise<void> {
    this.#news.push(...news);
    this.#wake();
    await settle();
  }

  async *read(): AsyncIterable<News> {
    try {
      for (;;) {
        const next = this.#news.shift();
        if (next instanceof Error) throw next;
        if (next) yield next;
        else await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      this.isOpen = false;
    }
  }
}

const settle = () => vi.advanceTimersByTimeAsync(1);
const [A, B] = ["spaces/a", "spaces/b"] as const;
const seconds = (...ends: number[]): News => ({
  is: "seconds",
  seconds: ends.map((end) => ({ unixSeconds: BigInt(end) }) as FiguresOfSecond),
});
const edit = (parent: string, revision: bigint): News => ({ is: "edit", parent, revision });

/** Follows a topic. Returns what was heard, as strings. */
function hear(tab: Shared, topic: string) {
  const heard: string[] = [];
  const listener: Listener = {
    topic,
    seconds: (seconds) => heard.push(seconds.map(({ unixSeconds }) => unixSeconds).join(" ")),
    revised: (revision) => heard.push(`revision ${revision}`),
    failed: ({ kind }) => heard.push(kind),
  };
  return { heard, leave: tab.hear(listener) };
}

describe("the shared stream", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  test("ok_all_tabs_have_one_stream", async () => {
    const browser = new FakeBrowser();
    const [one, two, three] = [browser.tab(), browser.tab(), browser.tab()] as const;
    const first = hear(one, A);
    await settle();
    const [second, third] = [hear(two, B), hear(three, A)];
    await settle();
    expect(browser.stream.wanted).toEqual({ tables: [{ parent: A }, { parent: B }] });
    await browser.stream.say({ is: "begin", parent: A, revision: 4n }, edit(A, 5n), edit(B, 9n));
    // An edit between the page's own call and the start of the stream would be missed without the first revision.
    const ofA = ["revision 4", "revision 5"];
    expect([first.heard, second.heard, third.heard]).toEqual([ofA, ["revision 9"], ofA]);
  });

  test("ok_a_closed_leader_is_replaced_where_the_stream_was", async () => {
    const browser = new FakeBrowser();
    const [one, two] = [browser.tab(), browser.tab()] as const;
    const first = hear(one, A);
    const [second, figures] = [hear(two, A), hear(two, FIGURES)];
    await settle();
    await browser.stream.say({ is: "begin", parent: A, revision: 0n }, seconds(1, 2), edit(A, 1n));
    first.leave();
    one.close();
    await settle();
    expect(browser.stream.wanted).toEqual({ tables: [{ parent: A, after: 1n }], figures: 2n });
    await browser.stream.say(edit(A, 2n), seconds(3));
    expect([second.heard, figures.heard]).toEqual([
      ["revision 0", "revision 1", "revision 2"],
      ["1 2", "3"],
    ]);
  });

  test("ok_a_new_tab_gets_the_metrics_of_the_last_minutes_once", async () => {
    const browser = new FakeBrowser();
    const [one, two, three] = [browser.tab(), browser.tab(), browser.tab()] as const;
    const first = hear(one, FIGURES);
    await settle();
    expect(browser.stream.wanted).toEqual({ tables: [], figures: 0n });
    await browser.stream.say(seconds(1, 2), seconds(3));
    const second = hear(two, FIGURES);
    await settle();
    hear(three, FIGURES);
    await browser.stream.say(seconds(4));
    expect([first.heard, second.heard]).toEqual([
      ["1 2", "3", "4"],
      ["1 2 3", "4"],
    ]);
    expect(browser.streams.length).toBe(1);
  });

  test("ok_a_topic_that_no_tab_shows_is_dropped_after_seconds", async () => {
    const browser = new FakeBrowser();
    const tab = browser.tab();
    const [first, second] = [hear(tab, A), hear(tab, B)];
    await settle();
    await browser.stream.say(edit(B, 7n));
    first.leave();
    await settle();
    // A page that is shown again at once needs no new stream.
    const third = hear(tab, A);
    await vi.advanceTimersByTimeAsync(5000);
    third.leave();
    await settle();
    const before = browser.streams.length;
    await vi.advanceTimersByTimeAsync(5000);
    expect(browser.streams.length).toBe(before + 1);
    expect(browser.stream.wanted).toEqual({ tables: [{ parent: B, after: 7n }] });
    second.leave();
    await vi.advanceTimersByTimeAsync(5000);
    expect(browser.open).toEqual([]);
  });

  test("err_a_refused_topic_is_told_where_it_is_shown_and_the_others_go_on", async () => {
    const browser = new FakeBrowser();
    const [one, two] = [browser.tab(), browser.tab()] as const;
    const first = hear(one, A);
    const second = hear(two, B);
    await settle();
    const refused = (kind: Refused["kind"]): Refused => ({ kind, rule: "", message: "" });
    await browser.stream.say({ is: "refused", topic: B, refused: refused("no-permission") }, edit(A, 1n));
    expect([first.heard, second.heard]).toEqual([["revision 1"], ["no-permission"]]);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(browser.streams.filter(({ wanted }) => wanted.tables.length === 2).length).toBe(1);
    // A page that is opened again asks again.
    second.leave();
    hear(two, B);
    await settle();
    expect(browser.stream.wanted).toEqual({ tables: [{ parent: A, after: 1n }, { parent: B }] });
    // A topic that is refused for another reason is asked for again later, from the current revision on.
    await browser.stream.say(edit(B, 3n), { is: "refused", topic: B, refused: refused("rule") });
    const before = browser.streams.length;
    await vi.advanceTimersByTimeAsync(3000);
    expect(browser.streams.length).toBe(before + 1);
    expect(browser.stream.wanted).toEqual({ tables: [{ parent: A, after: 1n }, { parent: B }] });
  });

  test("err_a_stream_that_fails_is_tried_again", async () => {
    const browser = new FakeBrowser();
    const [one, two] = [browser.tab(), browser.tab()] as const;
    const [first, second] = [hear(one, A), hear(two, FIGURES)];
    await settle();
    await browser.stream.say(edit(A, 1n), seconds(1), new ConnectError("gone", Code.Unavailable));
    expect([first.heard, second.heard]).toEqual([
      ["revision 1", "unreachable"],
      ["1", "unreachable"],
    ]);
    expect(browser.open).toEqual([]);
    await vi.advanceTimersByTimeAsync(3000);
    expect(browser.stream.wanted).toEqual({ tables: [{ parent: A, after: 1n }], figures: 1n });
  });

  test("ok_signing_out_ends_the_stream", async () => {
    const browser = new FakeBrowser();
    const [one, two] = [browser.tab(), browser.tab()] as const;
    const first = hear(one, FIGURES);
    hear(two, A);
    await settle();
    await browser.stream.say(seconds(1), edit(A, 1n));
    two.signedOut();
    await settle();
    // The leading tab asks again, without what the user who has signed out had seen.
    expect(browser.stream.wanted).toEqual({ tables: [{ parent: A }], figures: 0n });
    await browser.stream.say(new ConnectError("who?", Code.Unauthenticated));
    expect(browser.signedOut).toBe(2);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(browser.open).toEqual([]);
    // The user has signed in.
    first.leave();
    hear(one, FIGURES);
    await settle();
    expect(browser.stream.wanted).toEqual({ tables: [{ parent: A }], figures: 0n });
  });

  test("ok_without_locks_a_tab_has_a_stream_while_it_is_visible", async () => {
    const browser = new FakeBrowser();
    const [one, two] = [browser.tab(false), browser.tab(false)] as const;
    const first = hear(one, A);
    hear(one, FIGURES);
    hear(two, B);
    await settle();
    expect(browser.open.length).toBe(2);
    two.close();
    await settle();
    await browser.stream.say(edit(A, 1n), seconds(1));
    browser.isHidden = true;
    one.look();
    await settle();
    expect(browser.open).toEqual([]);
    browser.isHidden = false;
    one.look();
    await settle();
    expect(browser.stream.wanted).toEqual({ tables: [{ parent: A, after: 1n }], figures: 1n });
    await browser.stream.say(edit(A, 2n));
    expect(first.heard).toEqual(["revision 1", "revision 2"]);
  });
});
