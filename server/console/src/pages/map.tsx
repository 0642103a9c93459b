// The map of a space, now or at an earlier revision.
import { useMemo, useState } from "preact/hooks";
import { regions } from "../api/calls.ts";
import { useApp, useMay, useNewRegions } from "../app-state.ts";
import { AskDialog } from "../edits/ask.tsx";
import { OPS, opsFor } from "../edits/intent.ts";
import type { MapCell } from "../gen/kent/v1/regions_pb.ts";
import { format } from "../lib/format.ts";
import { shortOf, splitRegion } from "../lib/names.ts";
import { askMap, type MapPart } from "../map/ask.ts";
import { MapCanvas } from "../map/canvas.tsx";
import type { View } from "../map/layout.ts";
import { cellAt, pickAt } from "../map/pick.ts";
import { lookOf } from "../map/scene.ts";
import type { Scale } from "../map/tree.ts";
import { brief, lineOf, marksOf, sizeOf, stepsTo, titleOf, untilFull } from "../map/words.ts";
import { linkTo, replaceRoute } from "../router.ts";
import { Legend } from "../ui/bar.tsx";
import { useLoad } from "../ui/load.ts";
import { Choice, Code, Facts, Mark, Table } from "../ui/parts.tsx";
import { SpaceChoice, useRevision } from "../ui/space.tsx";
import { Problem } from "../ui/states.tsx";
import { TimeSlider } from "./time-slider.tsx";

const ROWS_MAX = 200;

/** The page. Its address contains the whole state of the page. */
export function MapPage(props: { space: string; params: URLSearchParams; made: number; onDone: () => void }) {
  const { space, params, made, onDone } = props;
  const app = useApp();
  const offers = useNewRegions(space);
  const revision = useRevision(space);
  const root = params.get("prefix") ?? "";
  const at = BigInt(/^\d+$/.test(params.get("at") ?? "") ? (params.get("at") ?? "0") : "0");
  const view: View = params.get("view") === "morton" ? "morton" : "icicle";
  const scale: Scale = params.get("scale") === "width" ? "width" : "log";
  const picked = params.get("pick") ?? undefined;
  const [pointed, setPointed] = useState<MapCell>();
  const [asks, setAsks] = useState(false);
  const load = useLoad((signal) => askMap(space, root, at, signal), [space, root, at, at === 0n ? revision : 0, made]);

  const link = (over: Record<string, string | undefined>) =>
    linkTo("map", [space], {
      prefix: root,
      at: at === 0n ? undefined : at.toString(),
      view: view === "icicle" ? undefined : view,
      scale: scale === "log" ? undefined : scale,
      pick: picked,
      ...over,
    });
  const linkToPrefix = (prefix: string) => link({ prefix, pick: pickAt(picked, prefix) });
  const zoom = (prefix: string) => {
    location.hash = linkToPrefix(prefix);
  };
  const part = load.value;
  // The pointer may have been on a cell of another map.
  const cell =
    part && (cellAt(part.cells, part.root, picked) ?? part.cells.find(({ prefix }) => prefix === pointed?.prefix));
  const mayCreate = offers.names.length > 0;

  return (
    <div class="page map-page">
      <header class="page-head">
        <h1>Map</h1>
        <SpaceChoice space={space} linkOf={(name) => linkTo("map", [name])} />
        <Choice
          label="View"
          options={[
            ["icicle", "Icicle"],
            ["morton", "Morton"],
          ]}
          value={view}
          onChange={(value) => replaceRoute(link({ view: value === "icicle" ? undefined : value }))}
        />
        <Choice
          label="Scale"
          options={[
            ["log", "Logarithmic"],
            ["width", "By width"],
          ]}
          value={scale}
          onChange={(value) => replaceRoute(link({ scale: value === "log" ? undefined : value }))}
        />
        {mayCreate && load.refused?.kind !== "no-permission" && (
          <button
            type="button"
            class="primary"
            disabled={!part || at !== 0n}
            onClick={() => part && app.edit({ op: "create", space, bits: part.bits })}
          >
            Create a region
          </button>
        )}
        {offers.asks && (
          <button type="button" class={mayCreate ? "" : "primary"} onClick={() => setAsks(true)}>
            Ask for a region
          </button>
        )}
      </header>
      <Crumbs part={part} root={root} link={linkToPrefix} />
      {load.refused ? (
        <Problem refused={load.refused} again={load.again} />
      ) : !part ? (
        <div class="map-and-details">
          <div>
            <div class={`bone map-bone ${view}`} />
            <Legend map />
          </div>
          <div class="details">
            <span class="hidden" role="status">
              Loading the map
            </span>
          </div>
        </div>
      ) : (
        <div class="map-and-details">
          <div>
            <MapCanvas
              part={part}
              root={root}
              view={view}
              scale={scale}
              picked={picked}
              describe={(one) => lineOf(one, part.bits, at !== 0n)}
              onPick={(prefix) => replaceRoute(link({ pick: prefix }))}
              onPoint={setPointed}
              onZoom={zoom}
            />
            <Legend map />
          </div>
          <Details part={part} space={space} cell={cell} isPast={at !== 0n} onZoom={zoom} />
        </div>
      )}
      <TimeSlider
        space={space}
        at={at}
        news={`${revision ?? ""} ${made}`}
        onMove={(revision) => replaceRoute(link({ at: revision === 0n ? undefined : revision.toString() }))}
      />
      {part && <Cells part={part} onPick={(prefix) => replaceRoute(link({ pick: prefix }))} />}
      {asks && <AskDialog space={space} onClose={() => setAsks(false)} onDone={onDone} />}
      {part?.partial && <p class="quiet-text">You may read only some regions. The other regions look free.</p>}
    </div>
  );
}

/** The path from the whole space to the displayed prefix. */
function Crumbs({ part, root, link }: { part: MapPart | undefined; root: string; link: (prefix: string) => string }) {
  const steps = stepsTo(root, part);
  return (
    <nav class="crumbs" aria-label="Zoom">
      <ol>
        {steps.map(({ prefix, name }, index) => (
          <li key={prefix} title={prefix === "" ? undefined : `prefix ${prefix}`}>
            {index === steps.length - 1 ? (
              <span aria-current="location">{name}</span>
            ) : (
              <a href={link(prefix)}>{name}</a>
            )}
          </li>
        ))}
      </ol>
      {root !== "" && (
        <a class="button" href={link(root.slice(0, -1))}>
          Zoom out
        </a>
      )}
    </nav>
  );
}

/** The details of a cell, and its actions. */
function Details(props: {
  part: MapPart;
  space: string;
  cell: MapCell | undefined;
  isPast: boolean;
  onZoom: (prefix: string) => void;
}) {
  const { part, space, cell, isPast, onZoom } = props;
  const { edit } = useApp();
  const mayCreate = useNewRegions(space).names.length > 0;
  if (!cell) {
    return (
      <section class="details" aria-label="Details">
        {!part.partial && part.cells.every((one) => lookOf(one) === "free") && (
          <p>There are no regions here: all identifiers are free.</p>
        )}
        <p class="quiet-text">
          Point at the map or move through it with the arrow keys to see the cells. A click selects a cell; a second
          click, or Enter, zooms in. To magnify, focus the map and use the wheel.
        </p>
        <Facts
          facts={[
            ["Revision", format.whole(part.revision)],
            ["Width", `${part.bits} bits`],
            ["Cells", format.whole(part.cells.length)],
          ]}
        />
      </section>
    );
  }
  const { region } = cell;
  const look = lookOf(cell);
  const parts = region && splitRegion(region.name);
  return (
    <section class="details" aria-label="Details">
      <h2>
        {parts ? <a href={linkTo("region", [parts.space, parts.region])}>{parts.region}</a> : titleOf(cell)}
        {marksOf(cell).map((mark) => (
          <Mark key={mark} kind={mark === "sealed" || mark === "delegated" ? mark : "plain"}>
            {mark}
          </Mark>
        ))}
      </h2>
      <Facts
        facts={[
          ["Prefix", <Code key="prefix" text={cell.prefix || "empty"} />],
          region && ["Zone", `${region.zoneBits} bits`],
          region && ["Suffix", `${region.suffixBits} bits`],
          look === "region" || look === "many"
            ? ["Capacity", format.count(BigInt(cell.capacity || "0"))]
            : ["Size", sizeOf(cell.prefix, part.bits)],
          cell.issued !== "" && look !== "free" && look !== "zone" && ["Issued", format.count(BigInt(cell.issued))],
          cell.fill !== undefined && (look === "region" || look === "many") && ["Full", format.share(cell.fill)],
          region && !isPast && ["Rate", `${format.short(region.rate)}/s`],
          region && !isPast && ["Time until full", untilFull(region)],
          cell.freeShare > 0 && ["Free", format.share(cell.freeShare)],
          cell.inside !== "" && ["Inside", shortOf(cell.inside)],
        ]}
      />
      <div class="actions">
        {look === "many" && (
          <button type="button" onClick={() => onZoom(cell.prefix)}>
            Zoom in
          </button>
        )}
        {look === "free" && !isPast && mayCreate && (
          <button
            type="button"
            class="primary"
            onClick={() => edit({ op: "create", space, bits: part.bits, prefix: cell.prefix })}
          >
            Create a region here
          </button>
        )}
        {region?.delegated && parts && (
          <a class="button" href={linkTo("map", [`${parts.space}/${parts.region}`])}>
            Open its space
          </a>
        )}
        {region && !isPast && <RegionActions name={region.name} part={part} />}
      </div>
    </section>
  );
}

/** The edits of a region, if the user may make them. */
function RegionActions({ name, part: { bits, revision } }: { name: string; part: MapPart }) {
  const { edit } = useApp();
  const may = useMay();
  const parts = splitRegion(name);
  const mayEdit = parts !== undefined && may("edit", { kind: "region", ...parts });
  const load = useLoad(
    async (signal) => (mayEdit ? regions.getRegion({ name }, { signal }) : undefined),
    [name, mayEdit, revision],
  );
  const region = load.value;
  if (!mayEdit || !parts || !region || region.name !== name) return null;
  return (
    <>
      {opsFor(region).map((op) => (
        <button type="button" key={op} onClick={() => edit({ op, space: parts.space, bits, region })}>
          {OPS[op].title}
        </button>
      ))}
    </>
  );
}

/** The cells as a table, for screen readers and for searching by name. */
function Cells({ part, onPick }: { part: MapPart; onPick: (prefix: string) => void }) {
  const [search, setSearch] = useState("");
  const found = useMemo(
    () =>
      part.cells.filter((cell) => search === "" || titleOf(cell).includes(search) || cell.prefix.startsWith(search)),
    [part, search],
  );
  return (
    <details class="cells">
      <summary>
        {part.cells.length === 1 ? "The cell" : `The ${format.whole(part.cells.length)} cells`} as a table
      </summary>
      <label class="search">
        <span>Name or prefix</span>
        <input type="search" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
      </label>
      <Table
        caption="Cells of the map"
        rows={found.slice(0, ROWS_MAX)}
        keyOf={(cell) => cell.prefix}
        columns={[
          {
            title: "What",
            cell: (cell) => (
              <button type="button" class="as-link" onClick={() => onPick(cell.prefix)}>
                {titleOf(cell)}
              </button>
            ),
          },
          { title: "Prefix", cell: (cell) => <code>{brief(cell.prefix) || "empty"}</code> },
          { title: "Zone", number: true, wide: true, cell: (cell) => cell.region?.zoneBits },
          { title: "Suffix", number: true, wide: true, cell: (cell) => cell.region?.suffixBits },
          {
            title: "Full",
            number: true,
            cell: (cell) => (cell.regionCount > 0n && cell.fill !== undefined ? format.share(cell.fill) : ""),
          },
          { title: "Marks", wide: true, cell: (cell) => marksOf(cell).join(", ") },
        ]}
      />
      {found.length > ROWS_MAX && (
        <p class="quiet-text">
          The first {ROWS_MAX} of {format.whole(found.length)}.
        </p>
      )}
    </details>
  );
}
