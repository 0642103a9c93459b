// A chart of lines over time.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { axisWidth, isolated, type Line, latest } from "../lib/figures.ts";
import { format } from "../lib/format.ts";
import { Mark } from "./parts.tsx";

const HEIGHT = 180;
/** The height of the time axis: one line of labels. */
const AXIS_HEIGHT = 28;
/** The width of the longest time label, in pixels. */
const CLOCK_WIDTH = 75;
/** The minimum distance between two time labels on the axis, in pixels. */
const CLOCK_SPACE = 110;
/** The possible distances between two time labels, in seconds. A label does not show fractions. */
const CLOCK_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900];
/** The index of the axis of values, its usual width, and the space between its labels and the plot, in pixels. */
const VALUES = 1;
const VALUE_WIDTH = 64;
const VALUE_GAP = 5;
const COLORS = ["--line-1", "--line-2", "--line-3", "--line-4"];
const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3]];

/** Draws several lines over one time axis. The legend shows the latest values. */
export function Chart(props: {
  title: string;
  times: number[];
  lines: Line[];
  show: (value: number) => string;
  /** Whether the values have ended, because the daemon cannot be reached. */
  isStale: boolean;
}) {
  const { title, times, lines, show, isStale } = props;
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot>(undefined);
  const shown = useRef(show);
  shown.current = show;
  const names = lines.map(({ name }) => name).join("\n");

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const color = (name: string) => () => resolve(element, name);
    const axis = { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false } };
    const made = new uPlot(
      {
        width: element.clientWidth || 300,
        height: HEIGHT,
        legend: { show: false },
        cursor: { y: false },
        scales: { y: { range: (_, __, max) => [0, Math.max(max * 1.1, 1)] } },
        axes: [
          {
            ...axis,
            size: AXIS_HEIGHT,
            space: CLOCK_SPACE,
            incrs: CLOCK_STEPS,
            values: (plot, values) => values.map((value) => (isCut(plot, value) ? "" : format.clock(value * 1000))),
          },
          {
            ...axis,
            gap: VALUE_GAP,
            size: (plot, labels) =>
              axisWidth(labels ?? [], VALUE_WIDTH, (label) => widthOf(plot, VALUES, label) + 2 * VALUE_GAP),
            values: (_, values) => values.map((value) => shown.current(value)),
          },
        ],
        series: [
          {},
          ...names.split("\n").map((label, index) => ({
            label,
            stroke: color(COLORS[index % COLORS.length] ?? ""),
            dash: DASHES[index % DASHES.length] ?? [],
            width: 2,
            points: { show: true, size: 4, filter: (plot: uPlot, line: number) => isolated(plot.data[line] ?? []) },
          })),
        ],
      },
      [times, ...lines.map(({ values }) => values)] as uPlot.AlignedData,
      element,
    );
    chart.current = made;
    const sizes = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    sizes.observe(element);
    const restyle = () => made.redraw(false);
    const switched = new MutationObserver(restyle);
    switched.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", restyle);
    return () => {
      sizes.disconnect();
      switched.disconnect();
      dark.removeEventListener("change", restyle);
      made.destroy();
    };
  }, [names]);

  useEffect(() => {
    chart.current?.setData([times, ...lines.map(({ values }) => values)] as uPlot.AlignedData);
  }, [times, lines]);

  const summary = lines.map((line) => `${line.name} ${textOf(line, show)}`).join(", ");
  return (
    <ChartCard title={title} end={isStale ? times.at(-1) : undefined}>
      <div
        ref={box}
        class="chart-box"
        role="img"
        aria-label={`${title}. ${isStale ? "Last" : "Now"}: ${summary || "nothing"}`}
      />
      <ul class="chart-legend">
        {lines.map((line, index) => (
          <li key={line.name}>
            <i class={`line-${(index % COLORS.length) + 1}`} />
            {line.name} <b>{textOf(line, show)}</b>
          </li>
        ))}
      </ul>
    </ChartCard>
  );
}

/** Whether the label of a time, which is centered below the time, would be cut by the right edge of the chart, or touch the
 * labels of the values. */
function isCut(plot: uPlot, time: number): boolean {
  const at = plot.valToPos(time, "x");
  return at < CLOCK_WIDTH / 2 || plot.bbox.left / uPlot.pxRatio + at + CLOCK_WIDTH / 2 > plot.width;
}

/** The width of a label of an axis, in CSS pixels. The canvas has the pixels of the screen. */
function widthOf(plot: uPlot, axis: number, label: string): number {
  // uPlot replaces the font by the font and its size.
  plot.ctx.font = (plot.axes[axis]?.font as unknown as string[] | undefined)?.[0] ?? "";
  return plot.ctx.measureText(label).width / uPlot.pxRatio;
}

/** The card of a chart, also while it loads. `end` is the time in seconds since which the values are stale. */
export function ChartCard(props: { title: string; end?: number | undefined; children: ComponentChildren }) {
  const { title, end, children } = props;
  return (
    <section class="card chart">
      <h2>
        {title}
        {end !== undefined && <Mark kind="warn">stale since {format.clock(end * 1000)}</Mark>}
      </h2>
      {children}
    </section>
  );
}

function textOf(line: Line, show: (value: number) => string): string {
  const value = latest(line);
  return value === undefined ? "–" : show(value);
}

/** Returns the value of a theme color. */
function resolve(element: HTMLElement, name: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
