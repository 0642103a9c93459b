import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { inTurn, newer } from "./turns.ts";

/** Locks as in a browser: one holder for each name, and the others wait. */
function fakeLocks() {
  const held = new Map<string, Promise<unknown>>();
  const request = async (name: string, { signal }: LockOptions, turn: () => Promise<void>): Promise<void> => {
    const aborted = new Promise((resolve) => signal?.addEventListener("abort", resolve));
    while (held.has(name)) {
      await Promise.race([held.get(name), aborted]);
      signal?.throwIfAborted();
    }
    const holding = turn().finally(() => held.delete(name));
    held.set(name, holding);
    await holding;
  };
  return { request } as unknown as LockManager;
}

function reader(locks: LockManager) {
  const end = new AbortController();
  const state = { reads: 0, polls: 0 };
  const done = inTurn({
    locks,
    name: "stream",
    end: end.signal,
    read: () => {
      state.reads++;
      return new Promise((resolve) => end.signal.addEventListener("abort", () => resolve()));
    },
    poll: async () => {
      state.polls++;
    },
  });
  return { state, stop: () => end.abort(), done };
}

describe("turns", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  test("ok_a_third_table_is_polled_until_a_stream_is_free", async () => {
    const locks = fakeLocks();
    const [first, second, third] = [reader(locks), reader(locks), reader(locks)] as const;
    await vi.advanceTimersByTimeAsync(4300);
    expect([first.state, second.state]).toEqual([
      { reads: 1, polls: 0 },
      { reads: 1, polls: 0 },
    ]);
    expect(third.state).toEqual({ reads: 0, polls: 3 });
    first.stop();
    await vi.advanceTimersByTimeAsync(4000);
    expect(third.state).toEqual({ reads: 1, polls: 3 });
    await first.done;
    third.stop();
    await third.done;
  });

  test("err_a_stream_that_fails_ends_the_turn", async () => {
    const failing = inTurn({
      locks: fakeLocks(),
      name: "stream",
      end: new AbortController().signal,
      read: () => Promise.reject(new Error("gone")),
      poll: async () => {},
    });
    await expect(failing).rejects.toThrow("gone");
  });

  test("ok_newer_entries_come_oldest_first", () => {
    const entries = [{ revision: 5n }, { revision: 4n }, { revision: 3n }];
    expect(newer(entries, 3n)).toEqual([{ revision: 4n }, { revision: 5n }]);
    expect(newer(entries, 5n)).toEqual([]);
  });
});
