// Streams that the tabs of a browser share. One tab holds the lock of a topic, reads the stream of the daemon and
// passes each event on to the other tabs. When this tab closes, another tab takes the lock. Browsers offer locks only
// to pages that are served over TLS or from the same machine. Without locks, each tab has its own stream. With locks,
// the tabs also have only a few streams in all: turns.ts.
import { BASE } from "./calls.ts";
import { refusedBy } from "./refused.ts";
import { inTurn, pause } from "./turns.ts";

/** A stream that tabs share. */
export interface Topic<E> {
  name: string;
  /** Reads the stream until `signal` aborts it, and calls `heard` for each event. */
  read: (heard: (event: E) => void, signal: AbortSignal) => Promise<void>;
  /** Asks once, and calls `heard` for each event since the last time. A topic without polls always has a stream. */
  poll?: (heard: (event: E) => void, signal: AbortSignal) => Promise<void>;
  /** Returns the events to send first to a tab that subscribes later: `kept` and the new event, without those that
   * the tab does not need. */
  keep: (kept: E[], event: E) => E[];
}

type Said<E> = { is: "event"; event: E } | { is: "kept"; events: E[] } | { is: "hello" };

const RETRY_MS = 3000;
/** The kinds of failures that a retry does not fix. */
const FINAL = ["sign-in", "no-permission", "not-there"];

/** Subscribes to a topic until the returned function is called. Calls `failed` for each failure of the stream in this tab. */
export function hear<E>(
  topic: Topic<E>,
  heard: (event: E) => void,
  failed: (error: unknown) => void = () => {},
): () => void {
  const end = new AbortController();
  const name = `kent ${BASE.pathname} ${topic.name}`;
  const channel = new BroadcastChannel(name);
  let kept: E[] = [];
  let leads = false;
  let started = false;

  channel.onmessage = ({ data }: MessageEvent<Said<E>>) => {
    if (data.is === "hello") {
      if (leads) channel.postMessage({ is: "kept", events: kept } satisfies Said<E>);
    } else if (data.is === "kept") {
      if (!started) data.events.forEach(heard);
      started = true;
    } else if (!leads) {
      started = true;
      heard(data.event);
    }
  };

  const say = (event: E) => {
    kept = topic.keep(kept, event);
    channel.postMessage({ is: "event", event } satisfies Said<E>);
    heard(event);
  };

  const follow = (): Promise<void> => {
    const { read, poll } = topic;
    if (!poll || !navigator.locks) return read(say, end.signal);
    return inTurn({
      locks: navigator.locks,
      name: `kent ${BASE.pathname} stream`,
      read: () => read(say, end.signal),
      poll: (signal) => poll(say, signal),
      end: end.signal,
    });
  };

  const lead = async () => {
    leads = true;
    while (!end.signal.aborted) {
      kept = [];
      try {
        await follow();
      } catch (error) {
        if (end.signal.aborted) return;
        failed(error);
        if (FINAL.includes(refusedBy(error).kind)) return;
      }
      await pause(RETRY_MS, end.signal);
    }
  };

  channel.postMessage({ is: "hello" } satisfies Said<E>);
  const leading = navigator.locks ? navigator.locks.request(name, { signal: end.signal }, lead) : lead();
  leading.catch(() => {});
  return () => {
    end.abort();
    channel.close();
  };
}
