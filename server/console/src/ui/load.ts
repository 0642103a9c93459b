// Loads the data of a page.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Refused, refusedBy } from "../api/refused.ts";

/** The state of a request. While a new request runs, the previous answer stays, so that the page does not jump. */
export interface Load<T> {
  value?: T;
  refused?: Refused;
  asking: boolean;
  /** Asks again. */
  again: () => void;
}

/** Asks when the page appears, and again whenever one of `keys` changes. Keys are compared as strings. */
export function useLoad<T>(ask: (signal: AbortSignal) => Promise<T>, keys: readonly unknown[]): Load<T> {
  const [round, setRound] = useState(0);
  const [known, setKnown] = useState<Omit<Load<T>, "again">>({ asking: true });
  const latest = useRef(ask);
  latest.current = ask;
  const key = keys.map(String).join("\n");
  // The effect depends on the keys only, not on the function `ask`.
  useEffect(() => {
    const end = new AbortController();
    setKnown((before) => ({ ...before, asking: true }));
    latest.current(end.signal).then(
      (value) => {
        if (!end.signal.aborted) setKnown({ value, asking: false });
      },
      (error: unknown) => {
        if (!end.signal.aborted) setKnown({ refused: refusedBy(error), asking: false });
      },
    );
    return () => end.abort();
  }, [key, round]);
  return { ...known, again: () => setRound((before) => before + 1) };
}

/** Returns the last value that has not changed for `ms` milliseconds. */
export function useRested<T>(value: T, ms: number): T {
  const [rested, setRested] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setRested(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return rested;
}
