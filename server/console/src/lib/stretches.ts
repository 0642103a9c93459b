// The revisions of a table that the daemon keeps, as the positions of a slider. A restore from a backup leaps over at
// least a million revisions, so the kept revisions are a few stretches without gaps.

/** Revisions without a gap. */
export interface Stretch {
  from: bigint;
  to: bigint;
}

/** How far a restore leaps at least. */
const LEAP = 1_000_000n;

/** Finds the stretches from `first` to `last`, the oldest first. `atOrBefore` returns the last revision that is not after
 * the given one. It is called only while at least `LEAP` revisions are left, because a shorter rest contains no gap. */
export async function findStretches(
  first: bigint,
  last: bigint,
  atOrBefore: (revision: bigint) => Promise<bigint>,
): Promise<Stretch[]> {
  const stretches: Stretch[] = [];
  for (let to = last; to >= first; ) {
    let from = to;
    let before = first - 1n;
    if (to - first < LEAP) from = first;
    // `from` is in the stretch, and all revisions between it and `to` are. First the steps double, then they halve.
    for (let step = 1n, doubles = true; from > first && step > 0n; step = doubles ? step * 2n : step / 2n) {
      const probe = from - step < first ? first : from - step;
      const found = await atOrBefore(probe);
      if (found === probe) from = probe;
      else {
        before = found;
        doubles = false;
      }
    }
    stretches.unshift({ from, to });
    to = from === first ? first - 1n : before;
  }
  return stretches;
}

/** The number of revisions in stretches. */
export function countOf(stretches: readonly Stretch[]): number {
  return stretches.reduce((count, { from, to }) => count + Number(to - from + 1n), 0);
}

/** The position of a revision, from 0; in a gap, that of the last revision before the gap. */
export function positionOf(stretches: readonly Stretch[], at: bigint): number {
  const earlier = stretches.filter(({ from }) => from <= at);
  return Math.max(0, countOf(earlier.map(({ from, to }) => ({ from, to: to < at ? to : at }))) - 1);
}

/** The revision at a position. */
export function revisionAt(stretches: readonly Stretch[], position: number): bigint | undefined {
  let left = BigInt(position);
  for (const { from, to } of stretches) {
    if (left <= to - from) return from + left;
    left -= to - from + 1n;
  }
  return undefined;
}

/** The token of the page of history that begins with the last edit at or before a revision. The daemon says "after:" and
 * a revision. The console is a part of the daemon, so it may write tokens itself. */
export function pageFrom(revision: bigint): string {
  return `after:${revision + 1n}`;
}
