// The time slider: shows the table at an earlier revision, and plays its edits.
import { useEffect, useState } from "preact/hooks";
import { regions } from "../api/calls.ts";
import { Differences } from "../edits/changes.tsx";
import type { HistoryEntry } from "../gen/kent/v1/regions_pb.ts";
import { format } from "../lib/format.ts";
import { spaceName } from "../lib/names.ts";
import { countOf, findStretches, pageFrom, positionOf, revisionAt, type Stretch } from "../lib/stretches.ts";
import { useLoad } from "../ui/load.ts";

/** How many edits the slider loads at once: those around the chosen revision. */
const PAGE = 100n;
const FRAME_MS = 900;

/** Moves the map through all edits that the daemon keeps. Revision 0 is the current one. */
export function TimeSlider(props: { space: string; at: bigint; news: string; onMove: (revision: bigint) => void }) {
  const { space, at, news, onMove } = props;
  const [plays, setPlays] = useState(false);
  const load = useLoad((signal) => askNewest(space, signal), [space, news]);
  const { stretches, entries: newest } = load.value ?? { stretches: [], entries: [] };
  const last = countOf(stretches) - 1;
  const step = at === 0n ? last : positionOf(stretches, at);
  // All revisions of a page have the same end, so that the film loads each page once.
  const end = (at / PAGE + 1n) * PAGE;
  const isNew = at === 0n || (newest.at(-1)?.revision ?? 0n) <= at;
  const page = useLoad(
    async (signal) => ({ end, entries: isNew ? [] : (await askPage(space, end, Number(PAGE), signal)).entries }),
    [space, end, isNew],
  );
  const isLoading = load.value === undefined || (!isNew && page.value?.end !== end && !page.refused);
  const entry = isLoading
    ? undefined
    : (isNew ? newest : (page.value?.entries ?? [])).find((one) => at === 0n || one.revision <= at);
  const move = (to: number) => {
    const revision = revisionAt(stretches, to);
    if (revision !== undefined) onMove(to >= last ? 0n : revision);
  };

  useEffect(() => {
    if (!plays) return;
    const timer = setTimeout(() => {
      if (step >= last) setPlays(false);
      else move(step + 1);
    }, FRAME_MS);
    return () => clearTimeout(timer);
  }, [plays, step, last]);

  if (load.refused) return null; // Users who may not read the history see only the current table.
  return (
    <section class="slider" aria-label="Time">
      <div class="slider-row">
        <button
          type="button"
          disabled={last < 1}
          aria-pressed={plays}
          onClick={() => {
            if (!plays && step >= last) move(0);
            setPlays(!plays);
          }}
        >
          {plays ? "Pause" : "Play"}
        </button>
        <input
          type="range"
          min={0}
          max={Math.max(last, 0)}
          value={Math.max(step, 0)}
          disabled={last < 1}
          aria-label="Revision of the table"
          aria-valuetext={valueText(revisionAt(stretches, step), entry)}
          onInput={(event) => {
            setPlays(false);
            move(event.currentTarget.valueAsNumber);
          }}
        />
        <span class="slider-at">{at === 0n ? "now" : `revision ${format.whole(at)}`}</span>
        {at !== 0n && (
          <button type="button" onClick={() => onMove(0n)}>
            Back to now
          </button>
        )}
      </div>
      <div class="slider-entry">
        {entry && at !== 0n ? (
          <>
            <p>
              <b>{entry.operation}</b> by {entry.principal || "unknown"}, {momentOf(entry)}
              {entry.reason !== "" && <q>{entry.reason}</q>}
            </p>
            <Differences changes={entry.changes} />
          </>
        ) : (
          <p class="quiet-text">
            {isLoading
              ? "Loading the edits."
              : last < 0
                ? "The table has no edits yet."
                : at !== 0n
                  ? "The daemon no longer has this edit."
                  : "Move the slider to see the table as it was, or play its edits."}
          </p>
        )}
      </div>
    </section>
  );
}

/** The newest edits, and the stretches of all kept revisions. */
async function askNewest(
  space: string,
  signal: AbortSignal,
): Promise<{ entries: HistoryEntry[]; stretches: Stretch[] }> {
  const parent = spaceName(space);
  const { entries, forgottenThrough } = await regions.listHistory({ parent, pageSize: Number(PAGE) }, { signal });
  // The table can still be shown as the last forgotten edit left it.
  const first = forgottenThrough === 0n ? 1n : forgottenThrough;
  const atOrBefore = async (at: bigint) => (await askPage(space, at, 1, signal)).entries[0]?.revision ?? first;
  return { entries, stretches: await findStretches(first, entries[0]?.revision ?? 0n, atOrBefore) };
}

/** The edits at and before a revision, the newest first. */
function askPage(space: string, from: bigint, pageSize: number, signal: AbortSignal) {
  return regions.listHistory({ parent: spaceName(space), pageSize, pageToken: pageFrom(from) }, { signal });
}

/** Says the position of the slider. */
function valueText(revision: bigint | undefined, entry: HistoryEntry | undefined): string {
  if (revision === undefined) return "no edits";
  return [`revision ${format.whole(revision)}`, ...(entry ? [entry.operation, momentOf(entry)] : [])].join(", ");
}

/** The time of an edit in the browser's time zone. */
export function momentOf({ time }: { time: string }): string {
  const unixMs = Date.parse(time);
  return Number.isNaN(unixMs) ? time : format.moment(unixMs);
}
