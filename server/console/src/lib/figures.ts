// The metrics of the last fifteen minutes, as columns for charts.
import type { FiguresOfSecond } from "../gen/kent/v1/admin_pb.ts";

/** The maximum number of seconds to show. */
export const SECONDS = 900;

/** Appends the metrics of new seconds to the known ones. A stream that restarts repeats some of the known seconds. */
export function joined(known: readonly FiguresOfSecond[], news: readonly FiguresOfSecond[]): FiguresOfSecond[] {
  const last = known.at(-1)?.unixSeconds ?? -1n;
  const first = news[0]?.unixSeconds;
  // The clock was set back, or another daemon answers, so drop the known seconds.
  if (first !== undefined && first < (known[0]?.unixSeconds ?? first)) return news.slice(-SECONDS);
  return [...known, ...news.filter(({ unixSeconds }) => unixSeconds > last)].slice(-SECONDS);
}

/** A line of a chart: one value for each second, or a gap. */
export interface Line {
  name: string;
  values: (number | null)[];
}

/** The seconds as numbers, for the time axis. */
export function timesOf(seconds: readonly FiguresOfSecond[]): number[] {
  return seconds.map(({ unixSeconds }) => Number(unixSeconds));
}

/** The grants per second of the busiest sources, and of all others together. */
export function bySource(seconds: readonly FiguresOfSecond[], most: number): Line[] {
  const totals = new Map<string, number>();
  for (const { sources } of seconds) {
    for (const { source, grants } of sources) totals.set(source, (totals.get(source) ?? 0) + Number(grants));
  }
  const names = [...totals].sort(([, a], [, b]) => b - a).map(([name]) => name);
  const shown = names.length > most ? names.slice(0, most - 1) : names;
  const lines: Line[] = shown.map((name) => ({
    name,
    values: seconds.map(({ sources }) => Number(sources.find(({ source }) => source === name)?.grants ?? 0n)),
  }));
  if (shown.length < names.length) {
    lines.push({
      name: "all others",
      values: seconds.map(({ sources }) =>
        sources.reduce((sum, { source, grants }) => (shown.includes(source) ? sum : sum + Number(grants)), 0),
      ),
    });
  }
  return lines;
}

/** One metric of the answering daemon, as a line of a chart. */
export function ofDaemon(
  seconds: readonly FiguresOfSecond[],
  name: string,
  read: (replica: FiguresOfSecond["replicas"][number]) => number | undefined,
): Line {
  return {
    name,
    values: seconds.map(({ replicas }) => {
      const own = replicas.find(({ answering }) => answering);
      return (own && read(own)) ?? null;
    }),
  };
}

/** The latest value of a line. */
export function latest({ values }: Line): number | undefined {
  return values.findLast((value) => value !== null) ?? undefined;
}

/** The width of an axis with these labels, in pixels: at least `least`, and otherwise that of the widest label. */
export function axisWidth(labels: readonly string[], least: number, widthOf: (label: string) => number): number {
  return Math.ceil(Math.max(least, ...labels.map(widthOf)));
}

/** Returns the indexes of the values without a neighbor. A line cannot show these, so they need points. */
export function isolated(values: ArrayLike<number | null | undefined>): number[] {
  const has = (at: number) => values[at] !== null && values[at] !== undefined;
  return Array.from(values, (_, at) => at).filter((at) => has(at) && !has(at - 1) && !has(at + 1));
}
