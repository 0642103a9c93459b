// Loading what a page shows.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Refused, refusedBy } from "../api/refused.ts";

/** What a page knows of an answer. While it asks again, it keeps the last one, so that nothing jumps. */
export interface Load<T> {
  value?: T;
  refused?: Refused;
  asking: boolean;
  /** Asks again. */
  again: () => void;
}

/** Asks when the page appears, and again whenever one of `keys` changes. Keys are compared as texts. */
export function useLoad<T>(ask: (signal: AbortSignal) => Promise<T>, keys: readonly unknown[]): Load<T> {
  const [round, setRound] = useState(0);
  const [known, setKnown] = useState<Omit<Load<T>, "again">>({ asking: true });
  const latest = useRef(ask);
  latest.current = ask;
  const key = keys.map(String).join("\n");
  // The keys say when to ask again.
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

/** A value that follows another one after it has rested for a time in milliseconds. */
export function useRested<T>(value: T, ms: number): T {
  const [rested, setRested] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setRested(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return rested;
}
