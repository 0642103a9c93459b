// The topics to which tabs subscribe: the edits of a table, and the metrics that the daemon sends each second.
import type { FiguresOfSecond } from "../gen/kent/v1/admin_pb.ts";
import type { HistoryEntry } from "../gen/kent/v1/regions_pb.ts";
import { spaceName } from "../lib/names.ts";
import { regions, watchFigures, watchTable } from "./calls.ts";
import type { Topic } from "./live.ts";
import { newer } from "./turns.ts";

/** The most edits that a poll can hear. */
const POLLED_MOST = 100;

/** The edits of a space's table from now on. The table itself is not included, because a page asks for the part that it shows. */
export function editsOf(space: string): Topic<HistoryEntry> {
  const parent = spaceName(space);
  let seen: bigint | undefined;
  return {
    name: `edits of ${space}`,
    keep: () => [],
    read: async (heard, signal) => {
      const afterRevision = seen || (await regions.getSpace({ name: parent }, { signal })).revision;
      // If this revision is not available, the next stream starts at the current one.
      seen = undefined;
      // At revision 0, the stream begins with the table itself, which is then empty.
      for await (const { event } of watchTable({ parent, afterRevision }, { signal })) {
        if (event.case !== "change") continue;
        seen = event.value.revision;
        heard(event.value);
      }
    },
    poll: async (heard, signal) => {
      const { entries } = await regions.listHistory({ parent, pageSize: POLLED_MOST }, { signal });
      const news = seen === undefined ? [] : newer(entries, seen);
      seen = entries[0]?.revision ?? 0n;
      news.forEach(heard);
    },
  };
}

/** The maximum number of seconds that the daemon and the console keep. */
export const SECONDS_KEPT = 900;

/** The metrics of the last 15 minutes, oldest first, then those of each new second. */
export const FIGURES: Topic<FiguresOfSecond[]> = {
  name: "figures",
  keep: (kept, event) => [[...(kept[0] ?? []), ...event].slice(-SECONDS_KEPT)],
  read: async (heard, signal) => {
    for await (const { seconds } of watchFigures({}, { signal })) heard(seconds);
  },
};
