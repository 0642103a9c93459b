// Paints a scene on a canvas.

import type { Rect } from "./layout.ts";
import type { Band, Item } from "./scene.ts";

/** The magnification and the offset of a map: x' = x * kx + dx. */
export interface Magnified {
  kx: number;
  ky: number;
  dx: number;
  dy: number;
}

const NAMES = [
  "prefix",
  "zone",
  "suffix",
  "issued",
  "free",
  "edge",
  "line",
  "page",
  "text",
  "sealed",
  "delegated",
  "on-prefix",
  "on-suffix",
  "on-issued",
  "on-zone",
] as const;
/** The colors of the theme. */
export type Colors = Record<(typeof NAMES)[number], string>;

/** Reads the colors of the theme in use. A canvas cannot use CSS variables. */
export function readColors(element: HTMLElement): Colors {
  const probe = document.createElement("i");
  element.append(probe);
  const read = (name: string) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const colors = Object.fromEntries(NAMES.map((name) => [name, read(name)])) as Colors;
  probe.remove();
  return colors;
}

/** Converts a rectangle of the scene to canvas coordinates. */
export function magnify(rect: Rect, { kx, ky, dx, dy }: Magnified): Rect {
  return { x: rect.x * kx + dx, y: rect.y * ky + dy, width: rect.width * kx, height: rect.height * ky };
}

/** Paints a map of `width` by `height` CSS pixels. */
export function paint(
  context: CanvasRenderingContext2D,
  size: { width: number; height: number },
  items: readonly Item[],
  by: Magnified,
  colors: Colors,
  marked: { picked?: string | undefined; pointed?: string | undefined },
): void {
  const isSeen = ({ x, y, width, height }: Rect) =>
    x < size.width && y < size.height && x + width > 0 && y + height > 0;
  context.fillStyle = colors.page;
  context.fillRect(0, 0, size.width, size.height);
  const stripes = hatch(context, colors.edge, 6, "down");
  const seals = hatch(context, colors.sealed, 9, "up", colors.page);
  for (const item of items) {
    const at = magnify(item, by);
    if (!isSeen(at)) continue;
    for (const band of item.bands) paintBand(context, band, magnify(band, by), colors, stripes);
    const row = item.bands[0];
    if (item.digit !== "" && row?.look === "prefix")
      paintDigit(context, item.digit, magnify(row, by), colors["on-prefix"]);
    if (!item.cell) continue;
    if (item.sealed && seals) {
      context.fillStyle = seals;
      context.fillRect(at.x, at.y, at.width, at.height);
    }
    if (item.sealed || item.delegated) {
      outline(context, at, item.sealed ? colors.sealed : colors.delegated, 2, item.delegated ? [2, 3] : []);
    }
    if (item.label !== "") paintName(context, item, by, colors, size);
  }
  for (const [prefix, width] of [
    [marked.pointed, 1.5],
    [marked.picked, 3],
  ] as const) {
    const item = prefix === undefined ? undefined : items.findLast((one) => one.prefix === prefix);
    if (item) outline(context, magnify(item, by), colors.text, width);
  }
}

function paintBand(
  context: CanvasRenderingContext2D,
  band: Band,
  at: Rect,
  colors: Colors,
  stripes: CanvasPattern | null,
) {
  const gap = at.width > 3 ? 0.5 : 0;
  const fill = (color: string | CanvasPattern, alpha = 1) => {
    context.globalAlpha = alpha;
    context.fillStyle = color;
    context.fillRect(at.x + gap, at.y + gap, Math.max(at.width - 2 * gap, 0.6), Math.max(at.height - 2 * gap, 0.6));
    context.globalAlpha = 1;
  };
  switch (band.look) {
    case "suffix":
      fill(colors.suffix);
      if (band.fill > 0) fill(colors.issued, shade(band.fill));
      break;
    case "many":
      fill(colors.suffix);
      if (band.fill > 0) fill(colors.issued, shade(band.fill));
      if (stripes) fill(stripes);
      break;
    case "free":
      fill(colors.free);
      if (at.width > 3) outline(context, at, colors.line, 1);
      break;
    case "branch":
      fill(colors.line);
      break;
    default:
      fill(colors[band.look]);
  }
}

/** The opacity for an issued share. Even a small share is visible. */
function shade(fill: number): number {
  return 0.2 + 0.8 * Math.min(1, fill);
}

function outline(context: CanvasRenderingContext2D, at: Rect, color: string, width: number, dash: number[] = []) {
  context.strokeStyle = color;
  context.lineWidth = width;
  context.setLineDash(dash);
  context.strokeRect(
    at.x + width / 2,
    at.y + width / 2,
    Math.max(at.width - width, 0.5),
    Math.max(at.height - width, 0.5),
  );
  context.setLineDash([]);
}

/** Writes the bit of a row, if the row is large enough. */
function paintDigit(context: CanvasRenderingContext2D, digit: string, at: Rect, color: string) {
  if (at.height < 10 || at.width < 10) return;
  context.fillStyle = color;
  context.font = "10px ui-monospace, monospace";
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(digit, at.x + at.width / 2, at.y + at.height / 2 + 0.5);
  context.textAlign = "start";
}

const LABEL = 12;
/** The minimum size of the space for a name, in pixels: across and along the text. */
const ROOM = [LABEL + 2, 30] as const;

/** Writes the name of a region into its suffix or, if the suffix is too small, into its zone. */
function paintName(
  context: CanvasRenderingContext2D,
  item: Item,
  by: Magnified,
  colors: Colors,
  size: { width: number; height: number },
) {
  const hasRoom = (band: Band) => {
    const { width, height } = magnify(band, by);
    return Math.min(width, height) >= ROOM[0] && Math.max(width, height) >= ROOM[1];
  };
  const place = item.bands.findLast(hasRoom);
  if (!place) return;
  const [ink, paper] =
    place.look === "suffix" && place.fill > 0.5
      ? [colors["on-issued"], colors.issued]
      : place.look === "zone"
        ? [colors["on-zone"], colors.zone]
        : [colors["on-suffix"], colors.suffix];
  if (place.look === "prefix") return;
  paintLabel(context, item.label, magnify(place, by), ink, item.sealed ? paper : undefined, size);
}

/** Writes a name into the visible part of its rectangle: horizontally, or downward if this part is narrow. A halo keeps
 * the name readable on a pattern. */
function paintLabel(
  context: CanvasRenderingContext2D,
  text: string,
  at: Rect,
  ink: string,
  halo: string | undefined,
  size: { width: number; height: number },
) {
  const x = Math.max(at.x, 0);
  const y = Math.max(at.y, 0);
  const width = Math.min(at.x + at.width, size.width) - x;
  const height = Math.min(at.y + at.height, size.height) - y;
  if (Math.min(width, height) < ROOM[0] || Math.max(width, height) < ROOM[1]) return;
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.font = `${LABEL}px system-ui, "DejaVu Sans", sans-serif`;
  context.textBaseline = "middle";
  const isLevel = width >= context.measureText(text).width + 6 || width >= height;
  if (isLevel) {
    context.translate(x + 4, y + Math.min(height / 2, 12));
  } else {
    context.translate(x + width / 2, y + 6);
    context.rotate(Math.PI / 2);
  }
  const fitted = fit(text, (isLevel ? width : height) - 8, (part) => context.measureText(part).width);
  if (halo !== undefined) {
    context.strokeStyle = halo;
    context.lineWidth = 5;
    context.lineJoin = "round";
    context.strokeText(fitted, 0, 0);
  }
  context.fillStyle = ink;
  context.fillText(fitted, 0, 0);
  context.restore();
}

/** Returns the text, or its longest beginning with an ellipsis that fits into the width. */
export function fit(text: string, width: number, measure: (text: string) => number): string {
  if (measure(text) <= width) return text;
  const marks = [...text];
  while (marks.length > 1 && measure(`${marks.join("")}…`) > width) marks.pop();
  return `${marks.join("")}…`;
}

/** Returns a pattern of slanted lines. `edge` is the color of a border of the lines, so that they stand out on any color. */
function hatch(
  context: CanvasRenderingContext2D,
  color: string,
  step: number,
  way: "up" | "down",
  edge?: string,
): CanvasPattern | null {
  const tile = document.createElement("canvas");
  tile.width = step;
  tile.height = step;
  const pen = tile.getContext("2d");
  if (!pen) return null;
  const [from, to] = way === "up" ? [step, 0] : [0, step];
  pen.beginPath();
  for (const shift of [-step, 0, step]) {
    pen.moveTo(shift, from);
    pen.lineTo(shift + step, to);
  }
  for (const [style, width] of [
    [edge, 3.2],
    [color, 1.4],
  ] as const) {
    if (style === undefined) continue;
    pen.strokeStyle = style;
    pen.lineWidth = width;
    pen.stroke();
  }
  return context.createPattern(tile, "repeat");
}
