// One stream of the daemon for all tabs of a browser. All tabs together have at most six connections to a daemon over
// HTTP/1.1, and a stream keeps one of them: with a stream for each tab, a few tabs would leave no connection for calls.
//
// A tab holds a shared lock for each topic that it shows. One tab leads: it holds an exclusive lock, learns from the held
// locks what all tabs show, reads one stream of all these topics, and passes each message on to the other tabs. All tabs
// note what they hear, so that another tab can go on where the stream was when the leading tab closes.
import type { FiguresOfSecond } from "../gen/kent/v1/admin_pb.ts";
import { joined } from "../lib/figures.ts";
import { type Refused, refusedBy } from "./refused.ts";

/** What a page follows: `FIGURES`, or the edits of a table by the resource name of its space. */
export type Topic = string;

/** The daemon's metrics of each second. */
export const FIGURES: Topic = "figures";

/** What a stream says. */
export type News =
  | { is: "seconds"; seconds: FiguresOfSecond[] }
  | { is: "begin"; parent: Topic; revision: bigint }
  | { is: "edit"; parent: Topic; revision: bigint }
  | { is: "refused"; topic: Topic; refused: Refused };

/** What a stream is asked for, and where it begins. */
export interface Wanted {
  /** Metrics after this second. 0: all that the daemon has kept. */
  figures?: bigint;
  /** Edits after this revision. Without a revision: from now on. */
  tables: { parent: Topic; after?: bigint }[];
}

/** What tabs tell each other. */
type Said =
  | News
  /** The stream has ended with an error. */
  | { is: "failed"; topics: Topic[]; refused: Refused }
  /** A tab shows a topic. */
  | { is: "hello"; topic: Topic }
  /** The metrics of the last 15 minutes, for tabs that have just been opened. */
  | { is: "kept"; seconds: FiguresOfSecond[] }
  /** The user has signed out. */
  | { is: "out" };

/** A page that follows a topic. */
export interface Listener {
  topic: Topic;
  seconds?: (seconds: FiguresOfSecond[]) => void;
  /** Called with the revision of each edit, and first with the revision from which the stream has the edits: the page may
   * show an earlier one. */
  revised?: (revision: bigint) => void;
  /** Called for each failure of the topic or of the stream. */
  failed?: (refused: Refused) => void;
}

/** What a tab has of the browser and of the daemon. */
export interface Means {
  /** The beginning of the names of the locks. */
  name: string;
  /** Browsers offer locks only to pages that are served over TLS or from the same machine. Without locks, the tab has
   * its own stream while it is visible. */
  shared: { locks: Pick<LockManager, "request" | "query">; channel: Channel } | undefined;
  open: (wanted: Wanted, signal: AbortSignal) => AsyncIterable<News>;
  isHidden: () => boolean;
  /** The daemon no longer accepts the browser's credentials. */
  signedOut: () => void;
}

/** A BroadcastChannel. */
export interface Channel {
  onmessage: ((message: MessageEvent) => void) | null;
  postMessage: (message: unknown) => void;
  close: () => void;
}

/** The daemon's limit on the tables of a stream. */
const TABLES_MOST = 64;
const RETRY_MS = 3000;
/** How often to look for tabs that have closed. */
const REVIEW_MS = 5000;
/** The kinds of failures that a retry does not fix. */
const FINAL: Refused["kind"][] = ["sign-in", "no-permission", "not-there"];

interface Stream {
  topics: Set<Topic>;
  end: AbortController;
}

/** The share of one tab in the stream. */
export class Shared {
  readonly #means: Means;
  readonly #closed = new AbortController();
  readonly #listeners = new Set<Listener>();
  /** The listeners that still need the metrics of the last minutes. */
  readonly #unserved = new Set<Listener>();
  /** The last revision that was heard, for each table. */
  readonly #revisions = new Map<Topic, bigint>();
  /** The metrics of the last 15 minutes, unless this tab has not heard all of them. */
  #kept: FiguresOfSecond[] | undefined;
  #begun = false;
  // The following fields matter only while this tab leads.
  #leads = false;
  #stream: Stream | undefined;
  /** The topics that are not asked for again until a tab says hello. */
  readonly #refused = new Map<Topic, Refused["kind"]>();
  #nudge = new AbortController();

  constructor(means: Means) {
    this.#means = means;
  }

  /** Follows a topic until the returned function is called. */
  hear(listener: Listener): () => void {
    this.#begin();
    this.#listeners.add(listener);
    this.#unserved.add(listener);
    const { name, shared } = this.#means;
    const left = new AbortController();
    const hello = () => this.#say({ is: "hello", topic: listener.topic });
    if (shared) {
      const show = async () => {
        hello();
        await aborted(left.signal);
      };
      const options = { mode: "shared", signal: left.signal } as const;
      shared.locks.request(`${name} topic ${listener.topic}`, options, show).catch(() => {});
    } else hello();
    return () => {
      this.#listeners.delete(listener);
      this.#unserved.delete(listener);
      left.abort();
    };
  }

  /** The user has signed out: forgets what was heard, and asks again for what the tabs show. */
  signedOut(): void {
    this.#say({ is: "out" });
  }

  /** Looks at once which topics the tabs show, because the tab has become visible or hidden. */
  look(): void {
    this.#nudge.abort();
  }

  /** Ends the part of this tab. */
  close(): void {
    this.#closed.abort();
    this.#means.shared?.channel.close();
  }

  #begin() {
    if (this.#begun) return;
    this.#begun = true;
    const { name, shared } = this.#means;
    if (!shared) return void this.#lead();
    shared.channel.onmessage = ({ data }) => this.#take(data);
    const signal = this.#closed.signal;
    shared.locks.request(`${name} stream`, { signal }, () => this.#lead()).catch(() => {});
  }

  /** Tells all tabs, also this one. */
  #say(said: Said) {
    this.#means.shared?.channel.postMessage(said);
    this.#take(said);
  }

  #take(said: Said) {
    switch (said.is) {
      case "seconds":
        if (this.#kept) this.#kept = joined(this.#kept, said.seconds);
        for (const { seconds } of this.#of(FIGURES)) seconds?.(said.seconds);
        break;
      case "kept":
        this.#kept ??= said.seconds;
        for (const listener of this.#of(FIGURES)) {
          if (this.#unserved.delete(listener) && said.seconds.length > 0) listener.seconds?.(said.seconds);
        }
        break;
      case "begin":
        this.#revise(said.parent, said.revision);
        break;
      case "edit":
        this.#revise(said.parent, said.revision);
        break;
      case "refused":
        // The daemon may no longer have the revision, so the next stream starts at the current one.
        this.#revisions.delete(said.topic);
        if (said.topic === FIGURES) this.#kept = undefined;
        this.#fail([said.topic], said.refused);
        break;
      case "failed":
        this.#fail(said.topics, said.refused);
        break;
      case "out":
        this.#revisions.clear();
        this.#kept = undefined;
        this.#end();
        break;
      case "hello":
        if (!this.#leads) break;
        this.#refused.delete(said.topic);
        // The user may have signed in.
        for (const [topic, kind] of this.#refused) if (kind === "sign-in") this.#refused.delete(topic);
        if (said.topic === FIGURES) this.#sayKept();
        this.look();
        break;
    }
  }

  #revise(parent: Topic, revision: bigint) {
    this.#revisions.set(parent, revision);
    for (const { revised } of this.#of(parent)) revised?.(revision);
  }

  #fail(topics: Topic[], refused: Refused) {
    for (const topic of topics) for (const { failed } of this.#of(topic)) failed?.(refused);
    if (refused.kind === "sign-in") this.#means.signedOut();
  }

  #of(topic: Topic): Listener[] {
    return [...this.#listeners].filter((listener) => listener.topic === topic);
  }

  #sayKept() {
    if (this.#kept) this.#say({ is: "kept", seconds: this.#kept });
  }

  /** Keeps the right stream open until this tab closes. */
  async #lead(): Promise<void> {
    this.#leads = true;
    // Tabs may have said hello when no tab was leading.
    this.#sayKept();
    for (let isDue = true; !this.#closed.signal.aborted; ) {
      const nudge = new AbortController();
      this.#nudge = nudge;
      await this.#review(isDue);
      await pause(REVIEW_MS, AbortSignal.any([nudge.signal, this.#closed.signal]));
      isDue = !nudge.signal.aborted;
    }
  }

  /** Opens another stream if a topic is missing. A stream with too many topics stays until the review is due, because a
   * tab that goes from page to page often shows the topic again. */
  async #review(isDue: boolean): Promise<void> {
    const shown = new Set((await this.#shown()).filter((topic) => !this.#refused.has(topic)));
    const open = this.#stream?.topics ?? new Set<Topic>();
    const isMissing = [...shown].some((topic) => !open.has(topic));
    const isExtra = [...open].some((topic) => !shown.has(topic));
    if (!isMissing && !(isExtra && (isDue || !this.#means.shared))) return;
    this.#end();
    if (shown.size > 0) this.#open(shown);
  }

  /** The topics that all tabs show. */
  async #shown(): Promise<Topic[]> {
    const { name, shared, isHidden } = this.#means;
    if (!shared) return isHidden() ? [] : [...this.#listeners].map(({ topic }) => topic);
    const { held = [] } = await shared.locks.query();
    const prefix = `${name} topic `;
    return held.flatMap(({ name = "" }) => (name.startsWith(prefix) ? [name.slice(prefix.length)] : []));
  }

  #open(topics: Set<Topic>) {
    const stream = { topics, end: new AbortController() };
    this.#stream = stream;
    void this.#read(stream, AbortSignal.any([stream.end.signal, this.#closed.signal]));
  }

  #end() {
    this.#stream?.end.abort();
    this.#stream = undefined;
    this.look();
  }

  async #read(stream: Stream, signal: AbortSignal): Promise<void> {
    try {
      for await (const news of this.#means.open(this.#wanted(stream.topics), signal)) {
        if (signal.aborted) return;
        this.#say(news);
        if (news.is === "refused") void this.#lose(stream, [news.topic], news.refused, signal);
      }
    } catch (error) {
      if (signal.aborted) return;
      const [topics, refused] = [[...stream.topics], refusedBy(error)];
      this.#say({ is: "failed", topics, refused });
      void this.#lose(stream, topics, refused, signal);
    }
    // The daemon ends the stream when it stops.
    await pause(RETRY_MS, signal);
    if (!signal.aborted) this.#end();
  }

  /** Asks for topics again later, or if a retry is useless when a tab says hello. */
  async #lose(stream: Stream, topics: Topic[], { kind }: Refused, signal: AbortSignal): Promise<void> {
    if (FINAL.includes(kind)) for (const topic of topics) this.#refused.set(topic, kind);
    else await pause(RETRY_MS, signal);
    for (const topic of topics) stream.topics.delete(topic);
    if (!signal.aborted) this.look();
  }

  #wanted(topics: Set<Topic>): Wanted {
    const parents = [...topics].filter((topic) => topic !== FIGURES).slice(0, TABLES_MOST);
    const tables = parents.map((parent) => {
      const after = this.#revisions.get(parent);
      return after === undefined ? { parent } : { parent, after };
    });
    if (!topics.has(FIGURES)) return { tables };
    // With no metrics yet, every tab hears all of them now, and can pass them on later.
    if (!this.#kept) this.#say({ is: "kept", seconds: [] });
    return { tables, figures: this.#kept?.at(-1)?.unixSeconds ?? 0n };
  }
}

/** Waits, but not longer than until `signal` is aborted. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(), ms);
  await aborted(AbortSignal.any([over.signal, signal]));
  clearTimeout(timer);
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
