// Choosing the space that a page shows, and following the revisions of its table.
import { useEffect, useState } from "preact/hooks";
import { regions } from "../api/calls.ts";
import { hearRevisions } from "../api/live.ts";
import type { Space } from "../gen/kent/v1/regions_pb.ts";
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

/** Returns the newest revision of a space's table that the page has heard of. A page that shows an earlier one reloads. */
export function useRevision(space: string): bigint | undefined {
  const [revision, setRevision] = useState<bigint>();
  useEffect(() => hearRevisions(space, setRevision), [space]);
  return revision;
}
