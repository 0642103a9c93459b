// Descriptions of the cells of a map, for tooltips, screen readers and the table of cells.
import { type MapCell, MapCell_Kind, type MapRegion, Region_Kind } from "../gen/kent/v1/regions_pb.ts";
import { format, superscript } from "../lib/format.ts";
import { shortOf } from "../lib/names.ts";
import type { MapPart } from "./ask.ts";
import { lookOf } from "./scene.ts";

/** The number of identifiers below a prefix: "2^40". */
export function sizeOf(prefix: string, bits: number): string {
  return `2${superscript(bits - prefix.length)}`;
}

/** Shortens a long prefix by leaving out its middle. */
export function brief(prefix: string): string {
  return prefix.length <= 28 ? prefix : `${prefix.slice(0, 18)}…${prefix.slice(-8)}`;
}

/** A prefix on the path from the whole space to the displayed prefix. */
export interface Step {
  prefix: string;
  name: string;
}

/** The path from the whole space to the displayed prefix. A step has the name of its region, if the map tells it. */
export function stepsTo(root: string, part: Tiled | undefined): Step[] {
  const known = part?.root === root ? part : undefined;
  const own = known ? nameOfRoot(known) : "";
  return [
    { prefix: "", name: "whole space" },
    ...(known?.around ?? []).map(({ prefix, name }) => ({ prefix, name: shortOf(name) })),
    ...(root === "" ? [] : [{ prefix: root, name: own ? shortOf(own) : brief(root) }]),
  ];
}

type Tiled = Pick<MapPart, "root" | "around" | "cells">;

/** The name of the region whose prefix is displayed: that of one of the cells, or a closed region around all of them. */
function nameOfRoot({ root, around, cells }: Tiled): string {
  const shown = cells.find(({ region }) => region?.prefix === root)?.region;
  const inside = cells[0]?.inside ?? "";
  const isOutside = around.some(({ name }) => name === inside) || cells.some((cell) => cell.inside !== inside);
  return shown?.name ?? (isOutside ? "" : inside);
}

const MARKS = [
  [MapCell_Kind.SEALED, "sealed"],
  [MapCell_Kind.DELEGATED, "delegated"],
  [MapCell_Kind.STRICT, "strict"],
] as const;

/** The marks of a cell, such as "sealed". If the cell has several regions, each mark begins with "some". */
export function marksOf(cell: MapCell): string[] {
  const { region, kinds } = cell;
  const some = region ? "" : "some ";
  const kind = region ? ["", "", "partial", "closed"][region.kind] : "";
  return [...(kind ? [kind] : []), ...MARKS.filter(([mark]) => kinds.includes(mark)).map(([, name]) => some + name)];
}

/** The title of a cell. */
export function titleOf(cell: MapCell): string {
  switch (lookOf(cell)) {
    case "region":
      return cell.region ? shortOf(cell.region.name) : "";
    case "free":
      return "free";
    case "zone":
      return cell.inside === "" ? "room to grow" : `zone of ${shortOf(cell.inside)}`;
    case "many":
      return cell.regionCount === 1n ? "1 region" : `${format.whole(cell.regionCount)} regions`;
  }
}

/** Describes a cell in one line. The daemon knows no rates of the past. */
export function lineOf(cell: MapCell, bits: number, isPast = false): string {
  const { region } = cell;
  return [
    titleOf(cell),
    `prefix ${brief(cell.prefix) || "empty"}`,
    region ? `zone ${region.zoneBits}, suffix ${region.suffixBits}` : sizeOf(cell.prefix, bits),
    ...(region || cell.regionCount > 0n ? useOf(cell) : []),
    region && !isPast && rateOf(region),
    ...marksOf(cell),
  ]
    .filter(Boolean)
    .join(", ");
}

/** The capacity of a cell and what is issued of it. */
function useOf({ capacity, issued, fill }: MapCell): string[] {
  const share = fill === undefined ? "" : format.share(fill);
  const count = issued === "" ? "" : format.count(BigInt(issued));
  return [
    capacity !== "" && capacity !== "0" ? `capacity ${format.count(BigInt(capacity))}` : "",
    count && share ? `${count} (${share}) issued` : (count || share) && `${count || share} issued`,
  ];
}

/** The rate of a region and the time until it is full. */
function rateOf(region: MapRegion): string {
  const until = untilFull(region);
  const rate = `${format.short(region.rate)}/s`;
  return region.fullInSeconds === undefined || until === "full" ? `${rate}, ${until}` : `${rate}, full in ${until}`;
}

/** The time until a region is full at its current rate. */
export function untilFull({ fullInSeconds }: Pick<MapRegion, "fullInSeconds">): string {
  if (fullInSeconds === undefined) return "no grants now";
  return fullInSeconds === 0 ? "full" : format.duration(fullInSeconds);
}

/** Whether a region is closed. A closed region grants no identifiers itself. */
export function isClosed(region: Pick<MapRegion, "kind">): boolean {
  return region.kind === Region_Kind.CLOSED;
}
