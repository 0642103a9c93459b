// Converts cells of the API to the rectangles that a map shows. All functions are pure, so that tests need no canvas.
import { type MapCell, MapCell_Kind } from "../gen/kent/v1/regions_pb.ts";
import { shortOf } from "../lib/names.ts";
import { depthScale, layOut, type Placed, type Plan, type Rect, suffixRect } from "./layout.ts";

/** A rectangle of one color. */
export interface Band extends Rect {
  look: "prefix" | "zone" | "suffix" | "free" | "many" | "branch";
  /** The issued share of the suffix, which is shown as a shade. */
  fill: number;
}

/** A cell or an inner node, with what is drawn for it. */
export interface Item extends Placed<MapCell> {
  bands: Band[];
  sealed: boolean;
  delegated: boolean;
  label: string;
  /** The bit that is written in its row: the last bit of its prefix. Empty in a Morton map. */
  digit: string;
}

/** What a cell is, in one word. */
export function lookOf(cell: MapCell): "region" | "free" | "zone" | "many" {
  if (cell.region) return "region";
  if (cell.regionCount > 0n || cell.kinds.includes(MapCell_Kind.SUBREGIONS)) return "many";
  return cell.kinds.includes(MapCell_Kind.ZONE) ? "zone" : "free";
}

/** Lays out a map, and chooses how each node looks. */
export function toScene(plan: Plan<MapCell>): Item[] {
  const placed = layOut(plan);
  const used = usedPrefixes(plan.cells, plan.root.length);
  return placed.map((node) => {
    const { cell } = node;
    const digit = plan.view === "icicle" && node.prefix.length > plan.root.length ? (node.prefix.at(-1) ?? "") : "";
    if (!cell) {
      const look = used.has(node.prefix) ? ("prefix" as const) : ("branch" as const);
      const bands = plan.view === "icicle" ? [{ ...rectOf(node), look, fill: 0 }] : [];
      return { ...node, bands, sealed: false, delegated: false, label: "", digit };
    }
    return {
      ...node,
      bands: plan.view === "icicle" ? columnOf(node, cell, plan) : fieldOf(node, cell, plan),
      sealed: cell.region?.sealed ?? false,
      delegated: cell.region?.delegated ?? false,
      label: cell.region ? shortOf(cell.region.name) : "",
      digit,
    };
  });
}

/** The prefixes of the inner nodes that have a used cell below them. */
function usedPrefixes(cells: readonly MapCell[], root: number): Set<string> {
  const used = new Set<string>();
  for (const cell of cells) {
    if (lookOf(cell) === "free") continue;
    for (let length = cell.prefix.length - 1; length >= root; length--) {
      const prefix = cell.prefix.slice(0, length);
      if (used.has(prefix)) break;
      used.add(prefix);
    }
  }
  return used;
}

/** A cell of an icicle: the row of its last bit, then the zone and the suffix with a row for each of their bits. */
function columnOf(node: Rect & { prefix: string }, cell: MapCell, plan: Plan<MapCell>): Band[] {
  const depth = depthScale(plan);
  const look = lookOf(cell);
  const own = depth(node.prefix.length);
  const band = (kind: Band["look"], from: number, to: number, fill = 0): Band => ({
    x: node.x,
    width: node.width,
    y: from,
    height: Math.max(0, to - from),
    look: kind,
    fill,
  });
  const bottom = node.y + node.height;
  if (look === "free") return [band("free", node.y, bottom)];
  if (look === "zone") return [band("zone", node.y, bottom)];
  const row = band("prefix", node.y, own);
  if (look === "many" || !cell.region) return [row, band("many", own, bottom, cell.fill ?? 0)];
  const suffix = depth(Math.max(plan.bits - cell.region.suffixBits, node.prefix.length));
  return [row, band("zone", own, suffix), band("suffix", suffix, bottom, cell.fill ?? 0)].filter(
    (one) => one.height > 0,
  );
}

/** A cell of a Morton map. */
function fieldOf(node: Rect & { prefix: string }, cell: MapCell, plan: Plan<MapCell>): Band[] {
  const look = lookOf(cell);
  const rect = rectOf(node);
  if (look !== "region" || !cell.region) {
    return [{ ...rect, look: look === "region" ? "many" : look, fill: cell.fill ?? 0 }];
  }
  const zoneBits = Math.max(0, plan.bits - node.prefix.length - cell.region.suffixBits);
  const inner = suffixRect(rect, plan.scale, zoneBits, cell.region.suffixBits);
  const zone: Band[] = zoneBits > 0 ? [{ ...rect, look: "zone", fill: 0 }] : [];
  return [...zone, { ...inner, look: "suffix", fill: cell.fill ?? 0 }];
}

function rectOf({ x, y, width, height }: Rect): Rect {
  return { x, y, width, height };
}
