// The effect of an edit: the regions before and after it, side by side, drawn like the figures of the paper.
import type { Region, RegionChange } from "../gen/kent/v1/regions_pb.ts";
import { format } from "../lib/format.ts";
import { shortOf } from "../lib/names.ts";
import { Bar, Legend } from "../ui/bar.tsx";
import { Code, Wrapped } from "../ui/parts.tsx";
import { bits, differences, stateOf } from "./describe.ts";

/** Draws all changes of an edit. */
export function Changes(props: {
  changes: readonly RegionChange[];
  base: bigint;
  revision: bigint;
  freed?: readonly string[];
}) {
  const { changes, base, revision, freed = [] } = props;
  return (
    <div class="changes">
      <div class="before-after">
        <Side
          title={`Before, revision ${format.whole(base)}`}
          regions={changes.map(({ before }) => before)}
          absent="not there yet"
        />
        <Side
          title={`After, revision ${format.whole(revision)}`}
          regions={changes.map(({ after }) => after)}
          absent="deleted"
        />
      </div>
      <Legend />
      <Differences changes={changes} />
      {freed.length > 0 && (
        <p>
          Freed prefixes: <Code text={freed.join(", ")} />
        </p>
      )}
    </div>
  );
}

function Side({ title, regions, absent }: { title: string; regions: readonly (Region | undefined)[]; absent: string }) {
  return (
    <section class="side">
      <h4>{title}</h4>
      {regions.map((region, index) =>
        region ? (
          <Bar key={region.name} shape={region} name={shortOf(region.name)} />
        ) : (
          <div class="bar-row absent" key={index}>
            <span class="bar-name">–</span>
            <div class="bar">{absent}</div>
          </div>
        ),
      )}
    </section>
  );
}

/** Describes the changes in words. */
export function Differences({ changes }: { changes: readonly RegionChange[] }) {
  return (
    <ul class="differences">
      {changes.map((change) => {
        const { before, after } = change;
        const region = after ?? before;
        if (!region) return null;
        const sign = !before ? "+" : !after ? "−" : "~";
        return (
          <li key={`${sign}${region.number}${region.name}`}>
            <b class={`sign ${!before ? "added" : !after ? "removed" : "changed"}`}>{sign}</b> {shortOf(region.name)}{" "}
            {before && after ? (
              differences(change).map(({ property, before, after }) => (
                <span class="difference" key={property}>
                  {property}{" "}
                  <del>
                    <Wrapped text={before || "none"} />
                  </del>{" "}
                  →{" "}
                  <ins>
                    <Wrapped text={after || "none"} />
                  </ins>
                </span>
              ))
            ) : (
              <span class="difference">
                prefix <Code text={region.prefix} />, zone {bits(region.zoneBits)}, suffix {bits(region.suffixBits)},{" "}
                {stateOf(region)}
              </span>
            )}
          </li>
        );
      })}
    </ul>
  );
}
