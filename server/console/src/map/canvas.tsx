// The map as a picture, with pointer, zoom and keyboard.
import { select } from "d3-selection";
import { type D3ZoomEvent, type ZoomBehavior, type ZoomTransform, zoom, zoomIdentity } from "d3-zoom";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { MapCell } from "../gen/kent/v1/regions_pb.ts";
import { Wrapped } from "../ui/parts.tsx";
import type { MapPart } from "./ask.ts";
import { holderOf, nodeAt, type View } from "./layout.ts";
import { type Colors, type Magnified, magnify, paint, readColors } from "./paint.ts";
import { cellAt, nearer } from "./pick.ts";
import { type Item, toScene } from "./scene.ts";
import type { Scale } from "./tree.ts";

/** What the map shows, and the events that it reports to its page. */
export interface MapCanvasProps {
  part: MapPart;
  /** The prefix to show. Its part may still be loading. */
  root: string;
  view: View;
  scale: Scale;
  /** The picked prefix. On a coarser map, it is inside of a cell. */
  picked: string | undefined;
  /** Describes a cell for tooltips and screen readers. */
  describe: (cell: MapCell) => string;
  onPick: (prefix: string) => void;
  onPoint: (cell: MapCell | undefined) => void;
  onZoom: (prefix: string) => void;
}

const MAGNIFIED_MAX = 4096;
const ICICLE_HEIGHT = 440;
const MORTON_HEIGHT_MAX = 620;

/** Draws a map. */
export function MapCanvas(props: MapCanvasProps) {
  const { part, view, scale, picked } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [theme, setTheme] = useState(0);
  const [pointed, setPointed] = useState<string>();
  const [transform, setTransform] = useState<ZoomTransform>(zoomIdentity);
  const [said, setSaid] = useState("");
  const held = useMemo(() => cellAt(part.cells, part.root, picked), [part, picked]);
  const height = view === "icicle" ? ICICLE_HEIGHT : Math.min(Math.max(width, 200), MORTON_HEIGHT_MAX);

  const items = useMemo<Item[]>(
    () =>
      width === 0 ? [] : toScene({ cells: part.cells, root: part.root, bits: part.bits, view, scale, width, height }),
    [part, view, scale, width, height],
  );
  const by: Magnified = {
    kx: transform.k,
    dx: transform.x,
    ky: view === "icicle" ? 1 : transform.k,
    dy: view === "icicle" ? 0 : transform.y,
  };

  // The map has its size before the browser draws the page, so that nothing moves.
  useLayoutEffect(() => setWidth(canvas.current?.parentElement?.clientWidth ?? 0), []);

  useEffect(() => {
    const element = canvas.current?.parentElement;
    if (!element) return;
    const sizes = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)));
    sizes.observe(element);
    const restyle = () => setTheme((before) => before + 1);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", restyle);
    const switched = new MutationObserver(restyle);
    switched.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      sizes.disconnect();
      switched.disconnect();
      dark.removeEventListener("change", restyle);
    };
  }, []);

  const colors = useRef<{ theme: number; read: Colors }>(undefined);
  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context || width === 0) return;
    if (colors.current?.theme !== theme) colors.current = { theme, read: readColors(element.parentElement ?? element) };
    const density = devicePixelRatio || 1;
    const [wide, high] = [Math.round(width * density), Math.round(height * density)];
    // Setting the size clears the picture and allocates memory, so set it only if it has changed.
    if (element.width !== wide) element.width = wide;
    if (element.height !== high) element.height = high;
    context.setTransform(density, 0, 0, density, 0, 0);
    paint(context, { width, height }, items, by, colors.current.read, { picked: held?.prefix, pointed });
  }, [items, transform, width, height, held, pointed, theme]);

  const latest = useRef({ items, ...props });
  latest.current = { items, ...props };
  const zooming = useRef<ZoomBehavior<HTMLCanvasElement, unknown>>(undefined);

  // A gesture magnifies the picture. When the gesture ends, the page zooms in on the longest prefix that contains the
  // visible part. The handlers outlive a render, so they read the props through `latest`.
  useEffect(() => {
    const element = canvas.current;
    if (!element || width === 0) return;
    const behavior = zoom<HTMLCanvasElement, unknown>()
      .scaleExtent([1, MAGNIFIED_MAX])
      .extent([
        [0, 0],
        [width, height],
      ])
      .translateExtent([
        [0, 0],
        [width, height],
      ])
      .filter(
        (event: Event) =>
          !(
            event instanceof WheelEvent &&
            !event.ctrlKey &&
            !event.metaKey &&
            !element.parentElement?.matches(":focus")
          ) && !(event instanceof MouseEvent && event.button > 0),
      )
      .on("zoom", (event: D3ZoomEvent<HTMLCanvasElement, unknown>) => setTransform(event.transform))
      .on("end", (event: D3ZoomEvent<HTMLCanvasElement, unknown>) => {
        const { k, x, y } = event.transform;
        if (k <= 1) return;
        const window = { x: -x / k, y: -y / k, width: width / k, height: height / k };
        const { items, view, part, onZoom } = latest.current;
        const holder = holderOf(items, view, window);
        if (holder && holder.prefix.length > part.root.length && !holder.cell) {
          onZoom(holder.prefix);
        }
      });
    zooming.current = behavior;
    select(element).call(behavior).on("dblclick.zoom", null);
    return () => {
      select(element).on(".zoom", null);
    };
  }, [width, height]);

  // Reset the magnification when the page shows another prefix, or the layout changes.
  useEffect(() => {
    const element = canvas.current;
    if (element && zooming.current) select(element).call(zooming.current.transform, zoomIdentity);
  }, [part.root, view, scale, width]);

  const at = (event: MouseEvent): Item | undefined => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box) return undefined;
    return nodeAt(items, (event.clientX - box.left - by.dx) / by.kx, (event.clientY - box.top - by.dy) / by.ky) as
      | Item
      | undefined;
  };

  const click = (event: MouseEvent) => {
    const item = at(event);
    if (!item) return;
    if (!item.cell) props.onZoom(item.prefix);
    else if (item.prefix === held?.prefix && item.prefix !== part.root) props.onZoom(item.prefix);
    else props.onPick(item.prefix);
  };

  const walk = (event: KeyboardEvent) => {
    const cells = part.cells;
    const present = held ? cells.indexOf(held) : -1;
    const go = (index: number) => {
      const cell = cells[Math.min(Math.max(index, 0), cells.length - 1)];
      if (!cell) return;
      props.onPick(cell.prefix);
      setSaid(props.describe(cell));
      props.onPoint(cell);
    };
    const zoom = (prefix: string | undefined) => prefix !== undefined && props.onZoom(prefix);
    const out = props.root === "" ? undefined : props.root.slice(0, -1);
    const act: Record<string, () => void> = {
      ArrowRight: () => go(present + 1),
      ArrowLeft: () => go(present < 0 ? cells.length - 1 : present - 1),
      Home: () => go(0),
      End: () => go(cells.length - 1),
      Enter: () => zoom(held?.prefix),
      "+": () => zoom(nearer(picked, props.root)),
      Backspace: () => zoom(out),
      "-": () => zoom(out),
    };
    const action = act[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  };

  const shown = pointed === undefined ? undefined : items.findLast((item) => item.prefix === pointed);
  const spot = shown && magnify(shown, by);
  return (
    <div class={`map-box ${view}`}>
      <div
        class="map-view"
        tabIndex={0}
        role="application"
        aria-roledescription="map"
        aria-label={`Map of ${part.root === "" ? "the whole space" : `prefix ${part.root}`}: ${part.cells.length} cells. Arrow keys move from cell to cell, Enter zooms in, Backspace zooms out.`}
        onKeyDown={walk}
      >
        <canvas
          ref={canvas}
          style={{ width: "100%", height: `${height}px` }}
          onClick={click}
          onMouseMove={(event) => {
            const item = at(event);
            if (item?.prefix === pointed) return;
            setPointed(item?.prefix);
            props.onPoint(item?.cell);
          }}
          onMouseLeave={() => {
            setPointed(undefined);
            props.onPoint(undefined);
          }}
        />
      </div>
      {shown?.cell && spot && (
        <p class="map-tip" style={{ left: `${Math.max(0, Math.min(spot.x, width - 240))}px` }} aria-hidden="true">
          <Wrapped text={props.describe(shown.cell)} />
        </p>
      )}
      <p class="hidden" aria-live="polite">
        {said}
      </p>
    </div>
  );
}
