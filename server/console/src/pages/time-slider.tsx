// The time slider: shows the table at an earlier revision, and plays its edits.
import { useEffect, useState } from "preact/hooks";
import { regions } from "../api/calls.ts";
import { Differences } from "../edits/changes.tsx";
import type { HistoryEntry } from "../gen/kent/v1/regions_pb.ts";
import { format } from "../lib/format.ts";
import { spaceName } from "../lib/names.ts";
import { useLoad } from "../ui/load.ts";

const STEPS_MAX = 1000;
const FRAME_MS = 900;

/** Moves the map through the latest edits. Revision 0 is the current one. */
export function TimeSlider(props: { space: string; at: bigint; news: string; onMove: (revision: bigint) => void }) {
  const { space, at, news, onMove } = props;
  const [plays, setPlays] = useState(false);
  const load = useLoad(
    (signal) => regions.listHistory({ parent: spaceName(space), pageSize: STEPS_MAX }, { signal }),
    [space, news],
  );
  const entries: HistoryEntry[] = load.value?.entries.toReversed() ?? [];
  const last = entries.length - 1;
  const step = at === 0n ? last : stepOf(entries, at);
  const entry = entries[step];
  const move = (to: number) => {
    const target = entries[to];
    if (target) onMove(to >= last ? 0n : target.revision);
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
          aria-valuetext={entry ? `revision ${entry.revision}, ${entry.operation}, ${momentOf(entry)}` : "no edits"}
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
            {load.value === undefined
              ? "Loading the edits."
              : entries.length === 0
                ? "The table has no edits yet."
                : "Move the slider to see the table as it was, or play its edits."}
          </p>
        )}
      </div>
    </section>
  );
}

/** The index of the last edit at or before a revision. */
export function stepOf(entries: readonly { revision: bigint }[], at: bigint): number {
  return entries.findLastIndex(({ revision }) => revision <= at);
}

/** The time of an edit in the browser's time zone. */
export function momentOf({ time }: { time: string }): string {
  const unixMs = Date.parse(time);
  return Number.isNaN(unixMs) ? time : format.moment(unixMs);
}
