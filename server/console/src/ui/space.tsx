// Choosing the space that a page shows, and following the new edits of its table.
import { useEffect, useState } from "preact/hooks";
import { regions } from "../api/calls.ts";
import { hearEdits } from "../api/live.ts";
import type { HistoryEntry, Space } from "../gen/kent/v1/regions_pb.ts";
import { spaceOf } from "../lib/names.ts";
import { useLoad } from "./load.ts";

/** Lets the user choose a space. */
export function SpaceChoice({ space, linkOf }: { space: string; linkOf: (space: string) => string }) {
  const spaces = useLoad((signal) => regions.listSpaces({ pageSize: 1000 }, { signal }), []);
  const names = spaces.value?.spaces.map(({ name }: Space) => spaceOf(name)) ?? [];
  const all = names.includes(space) ? names : [space, ...names];
  return (
    <label class="space-choice">
      <span>Space</span>
      <select
        value={space}
        onChange={(event) => {
          location.hash = linkOf(event.currentTarget.value);
        }}
      >
        {all.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Returns the last edit of any user since the page was opened. */
export function useEdits(space: string): HistoryEntry | undefined {
  const [last, setLast] = useState<HistoryEntry>();
  useEffect(() => hearEdits(space, setLast), [space]);
  return last;
}
