// The picked cell of a map. It stays picked while the map zooms.
import type { Prefix } from "../lib/bits.ts";
import type { Cell } from "./tree.ts";

/** The pick after a zoom to a prefix. It is kept while a part of it is in view. */
export function pickAt(picked: Prefix | undefined, root: Prefix): Prefix | undefined {
  return picked?.startsWith(root) || (picked !== undefined && root.startsWith(picked)) ? picked : undefined;
}

/**
 * The picked cell of the map of `root`. On a map that merges this cell with others, the cell that contains the pick.
 * After the pick was split, its first part.
 */
export function cellAt<C extends Cell>(cells: readonly C[], root: Prefix, picked: Prefix | undefined): C | undefined {
  if (picked === undefined) return undefined;
  const parts = picked.length > root.length ? cells.filter(({ prefix }) => prefix.startsWith(picked)) : [];
  return cells.find(({ prefix }) => picked.startsWith(prefix)) ?? parts[0];
}

/** The prefix that is one bit nearer to the pick than the displayed one. Absent if the pick fills the map. */
export function nearer(picked: Prefix | undefined, root: Prefix): Prefix | undefined {
  return picked?.startsWith(root) && picked !== root ? picked.slice(0, root.length + 1) : undefined;
}
