// Descriptions of the changes that an edit made to a region.
import type { Region, RegionChange } from "../gen/kent/v1/regions_pb.ts";
import { format, superscript } from "../lib/format.ts";
import { shortOf } from "../lib/names.ts";

/** A changed property, with its values before and after the edit. */
export interface Difference {
  property: string;
  before: string;
  after: string;
}

/** The maximum width of identifiers. A policy with this limit expands as far as possible, like a policy without a
 * limit. */
const WIDEST = 128;

/** The properties of a region that an edit can change. */
const PROPERTIES: [string, (region: Region) => string][] = [
  ["name", (region) => shortOf(region.name)],
  ["prefix", (region) => region.prefix],
  ["zone", (region) => bits(region.zoneBits)],
  ["suffix", (region) => bits(region.suffixBits)],
  ["capacity", (region) => (region.capacity === "" ? "" : format.count(BigInt(region.capacity)))],
  ["state", stateOf],
  ["parent", (region) => shortOf(region.parent)],
  ["owner", (region) => region.owner],
  ["description", (region) => region.description],
  [
    "labels",
    (region) =>
      Object.entries(region.labels)
        .map(([name, value]) => `${name}=${value}`)
        .join(", "),
  ],
  ["policy", policyOf],
];

/** A number of bits: "1 bit", "8 bits". */
export function bits(count: number): string {
  return count === 1 ? "1 bit" : `${count} bits`;
}

/** A region's kind, and whether the region is sealed or delegated. */
export function stateOf(region: Pick<Region, "kind" | "sealed" | "delegatedSpace">): string {
  const kind = ["", "open", "partial", "closed"][region.kind] ?? "";
  return [kind, region.sealed && "sealed", region.delegatedSpace !== "" && "delegated"].filter(Boolean).join(", ");
}

/** A region's policy in one line. Empty if the policy sets nothing. */
export function policyOf({ policy }: Pick<Region, "policy">): string {
  if (!policy) return "";
  const { autoExpand, cap, minChunk, maxChunk, strict, stride } = policy;
  const expansion = autoExpand
    ? `expands by ${bits(autoExpand.byBits)} at ${autoExpand.atPercent} %${autoExpand.maxSuffixBits % WIDEST > 0 ? ` up to 2${superscript(autoExpand.maxSuffixBits)}` : ""}`
    : "";
  return [
    strict && "strict",
    expansion,
    cap && `at most ${format.whole(BigInt(cap))}`,
    stride && `step ${stride.step}, offset ${stride.offset}`,
    maxChunk > 0n && `chunks of ${format.whole(minChunk)} to ${format.whole(maxChunk)}`,
  ]
    .filter(Boolean)
    .join(", ");
}

/** The properties that an edit changed. Empty for a region that it created or deleted. */
export function differences({ before, after }: RegionChange): Difference[] {
  if (!before || !after) return [];
  return PROPERTIES.map(([property, read]) => ({ property, before: read(before), after: read(after) })).filter(
    (one) => one.before !== one.after,
  );
}
