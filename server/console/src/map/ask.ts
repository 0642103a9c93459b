// Asks the daemon for a map.
import { regions } from "../api/calls.ts";
import type { MapCell, MapRegion } from "../gen/kent/v1/regions_pb.ts";
import { spaceName } from "../lib/names.ts";

/** A part of a space at a revision. */
export interface MapPart {
  cells: MapCell[];
  around: MapRegion[];
  revision: bigint;
  bits: number;
  /** Whether the user may read only some regions. The other regions look free. */
  partial: boolean;
  /** The prefix that the cells tile. */
  root: string;
}

/** The maximum number of cells of a map. */
export const CELLS_MAX = 4096;

/** Asks for the map of a prefix. Revision 0 is the current one. */
export async function askMap(space: string, root: string, at: bigint, signal: AbortSignal): Promise<MapPart> {
  const parent = spaceName(space);
  const map = await regions.mapRegions({ parent, prefix: root, maxCells: CELLS_MAX, atRevision: at }, { signal });
  return { cells: map.cells, around: map.around, revision: map.revision, bits: map.bits, partial: map.partial, root };
}
