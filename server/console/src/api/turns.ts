// The streams of a browser. All tabs together have at most six connections to a daemon over HTTP/1.1, and a stream
// keeps one of them. If streams had all six, every other call of every tab would wait forever.

/** How many streams of tables the tabs of a browser have at once. The stream of the metrics is one more: three in all,
 * which leaves three connections for calls. */
const STREAMS_MOST = 2;
/** How often to poll while no stream is free. */
const POLL_MS = 2000;
/** The first poll waits this long, because a stream is usually free at once. */
const FIRST_POLL_MS = 200;

/** Polls until one of the browser's streams is free, then reads the stream, until it fails or `end` is aborted. */
export async function inTurn(props: {
  locks: Pick<LockManager, "request">;
  /** The name of the locks: one for each stream that may be open. */
  name: string;
  read: () => Promise<void>;
  /** One poll. A poll that fails is the last one. */
  poll: (signal: AbortSignal) => Promise<void>;
  end: AbortSignal;
}): Promise<void> {
  const { locks, name, read, poll, end } = props;
  const free = new AbortController();
  const waits = AbortSignal.any([end, free.signal]);
  let reading: Promise<void> | undefined;
  const turn = async () => {
    if (waits.aborted) return;
    free.abort();
    reading = read();
    await reading.catch(() => {});
  };
  const turns = Array.from({ length: STREAMS_MOST }, (_, slot) =>
    locks.request(`${name} ${slot}`, { signal: waits }, turn),
  );
  await Promise.allSettled([...turns, repeat(poll, waits)]);
  await reading;
}

async function repeat(poll: (signal: AbortSignal) => Promise<void>, signal: AbortSignal): Promise<void> {
  await pause(FIRST_POLL_MS, signal);
  while (!signal.aborted) {
    await poll(signal);
    await pause(POLL_MS, signal);
  }
}

/** The entries after a revision, oldest first. The entries of a history are ordered newest first. */
export function newer<E extends { revision: bigint }>(entries: readonly E[], seen: bigint): E[] {
  return entries.filter(({ revision }) => revision > seen).reverse();
}

/** Waits, but not longer than until `signal` is aborted. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
