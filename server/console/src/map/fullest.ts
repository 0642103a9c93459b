// The fullest regions of a space. The daemon has no list of them, so the console finds them on maps.
import type { MapCell, MapRegion } from "../gen/kent/v1/regions_pb.ts";
import type { Prefix } from "../lib/bits.ts";

/** A cell that shows one region, which can be full. */
export type RegionCell = MapCell & { region: MapRegion };

/** Regions that were found. */
export interface Found {
  cells: RegionCell[];
  /** Whether these are all regions. */
  isAll: boolean;
}

/** Finds regions on the map of a whole space, and then on the maps of at most `deeper` of its cells with several
 * regions, the fullest first. */
export async function findRegions(
  ask: (prefix: Prefix) => Promise<readonly MapCell[]>,
  deeper: number,
): Promise<Found> {
  let cells = await ask("");
  for (let round = 0; round < deeper; round++) {
    const merged = fullestMerged(cells);
    if (!merged) break;
    const parts = await ask(merged.prefix);
    cells = [...cells.filter((cell) => cell !== merged), ...parts];
  }
  return { cells: cells.filter(isRegion), isAll: fullestMerged(cells) === undefined };
}

/** The regions that will be full first, of several spaces. */
export function mostUrgent(found: readonly Found[], most: number): Found {
  const cells = found.flatMap(({ cells }) => cells).sort(byUrgency);
  return { cells: cells.slice(0, most), isAll: found.every(({ isAll }) => isAll) };
}

/** The outcomes that succeeded: a user sees the spaces that the user may read. If none succeeded, throws the reason. */
export function succeeded<T>(outcomes: readonly PromiseSettledResult<T>[]): T[] {
  const values = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
  const failed = outcomes.find(({ status }) => status === "rejected") as PromiseRejectedResult | undefined;
  if (values.length === 0 && failed) throw failed.reason;
  return values;
}

function isRegion(cell: MapCell): cell is RegionCell {
  return cell.region !== undefined && cell.capacity !== "0";
}

/** The fullest of the cells with several regions, or with a region and free identifiers. */
function fullestMerged(cells: readonly MapCell[]): MapCell | undefined {
  const merged = cells.filter(({ region, regionCount }) => region === undefined && regionCount > 0n);
  return merged.reduce<MapCell | undefined>(
    (best, cell) => (best === undefined || (cell.fill ?? 0) > (best.fill ?? 0) ? cell : best),
    undefined,
  );
}

/** Orders regions by the time until they are full, the shortest first, then by the issued share, the largest first. */
function byUrgency(a: RegionCell, b: RegionCell): number {
  const left = ({ region }: RegionCell) => region.fullInSeconds ?? Number.POSITIVE_INFINITY;
  return left(a) === left(b) ? (b.fill ?? 0) - (a.fill ?? 0) : left(a) - left(b);
}
