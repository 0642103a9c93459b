// The history of a table or of a region: the edits with their authors, times and reasons.
import { useEffect, useState } from "preact/hooks";
import { regions } from "../api/calls.ts";
import { refusedBy } from "../api/refused.ts";
import { useApp, useMay } from "../app-state.ts";
import { Differences } from "../edits/changes.tsx";
import type { HistoryEntry } from "../gen/kent/v1/regions_pb.ts";
import { format } from "../lib/format.ts";
import { spaceName } from "../lib/names.ts";
import { linkTo } from "../router.ts";
import { type Load, useLoad } from "../ui/load.ts";
import { Wrapped } from "../ui/parts.tsx";
import { SpaceChoice, useRevision } from "../ui/space.tsx";
import { Empty, Loaded } from "../ui/states.tsx";
import { toast } from "../ui/toast.tsx";
import { momentOf } from "./time-slider.tsx";

const PAGE = 50;

/** The page. */
export function HistoryPage({ space, made }: { space: string; made: number }) {
  const app = useApp();
  const may = useMay();
  const revision = useRevision(space);
  const load = useHistory(spaceName(space), `${revision ?? ""} ${made}`);
  const bits = useLoad(
    async (signal) => (await regions.getSpace({ name: spaceName(space) }, { signal })).bits,
    [space],
  );
  return (
    <div class="page">
      <header class="page-head">
        <h1>History</h1>
        <SpaceChoice space={space} linkOf={(name) => linkTo("history", [name])} />
        {may("edit", { kind: "space", space }) && !load.refused && (
          <button
            type="button"
            disabled={(load.value?.entries.length ?? 0) === 0 || bits.value === undefined}
            onClick={() => app.edit({ op: "undo", space, bits: bits.value ?? 64 })}
          >
            Undo the last edit
          </button>
        )}
      </header>
      <Loaded load={load} what="the history" rows={8}>
        {(history) =>
          history.entries.length === 0 ? (
            <Empty title="No edits yet">
              <p>
                The first region makes revision 1: <a href={linkTo("map", [space])}>open the map</a>.
              </p>
            </Empty>
          ) : (
            <Timeline space={space} history={history} parent={spaceName(space)} />
          )
        }
      </Loaded>
    </div>
  );
}

/** The newest edits, and the token of the next page. */
export interface History {
  entries: HistoryEntry[];
  next: string;
  forgottenThrough: bigint;
}

/** Asks for the newest edits of a table or a region. */
export function useHistory(parent: string, news: string): Load<History> {
  return useLoad(
    async (signal) => {
      const page = await regions.listHistory({ parent, pageSize: PAGE }, { signal });
      return { entries: page.entries, next: page.nextPageToken, forgottenThrough: page.forgottenThrough };
    },
    [parent, news],
  );
}

/** Renders edits, newest first. A button loads older edits. */
export function Timeline({ space, history, parent }: { space: string; history: History; parent: string }) {
  const [older, setOlder] = useState<HistoryEntry[]>([]);
  const [next, setNext] = useState(history.next);
  useEffect(() => {
    setOlder([]);
    setNext(history.next);
  }, [history]);
  const more = async () => {
    try {
      const page = await regions.listHistory({ parent, pageSize: PAGE, pageToken: next });
      setOlder((before) => [...before, ...page.entries]);
      setNext(page.nextPageToken);
    } catch (error) {
      toast(refusedBy(error).message);
    }
  };
  return (
    <>
      <ol class="timeline">
        {[...history.entries, ...older].map((entry) => (
          <li key={entry.revision.toString()}>
            <p class="timeline-head">
              <a href={linkTo("map", [space], { at: entry.revision.toString() })}>
                revision {format.whole(entry.revision)}
              </a>
              <b>{entry.operation}</b>
              {entry.undoes !== 0n && <span>undoes revision {format.whole(entry.undoes)}</span>}
            </p>
            <p class="quiet-text">
              <time dateTime={entry.time}>{momentOf(entry)}</time> by {entry.principal || "unknown"}
            </p>
            {entry.reason !== "" && <blockquote>{entry.reason}</blockquote>}
            <Differences changes={entry.changes} />
            {entry.declared !== "" && (
              <p>
                next number <Wrapped text={format.whole(BigInt(entry.declaredBefore || "0"))} /> →{" "}
                <Wrapped text={format.whole(BigInt(entry.declared))} />
              </p>
            )}
          </li>
        ))}
      </ol>
      {next !== "" && (
        <button type="button" onClick={more}>
          Older edits
        </button>
      )}
      {next === "" && history.forgottenThrough > 0n && (
        <p class="quiet-text">
          The daemon no longer has the edits up to revision {format.whole(history.forgottenThrough)}.
        </p>
      )}
    </>
  );
}
