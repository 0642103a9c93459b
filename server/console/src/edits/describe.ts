// What an edit did to a region, in words.
import type { Region, RegionChange } from "../gen/kent/v1/regions_pb.ts";
import { format, superscript } from "../lib/format.ts";
import { shortOf } from "../lib/names.ts";

/** A changed property: what it was, and what it is. */
export interface Difference {
  property: string;
  before: string;
  after: string;
}

/** The greatest width of identifiers. An expansion up to it has no limit of its own. */
const WIDEST = 128;

/** What can differ between a region before and after an edit. */
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

/** The bits of something: "1 bit", "8 bits". */
export function bits(count: number): string {
  return count === 1 ? "1 bit" : `${count} bits`;
}

/** A region's kind and marks. */
export function stateOf(region: Pick<Region, "kind" | "sealed" | "delegatedSpace">): string {
  const kind = ["", "open", "partial", "closed"][region.kind] ?? "";
  return [kind, region.sealed && "sealed", region.delegatedSpace !== "" && "delegated"].filter(Boolean).join(", ");
}

/** A region's policy in one line. Empty if it has none. */
export function policyOf({ policy }: Pick<Region, "policy">): string {
  if (!policy) return "";
  const { autoExpand, cap, minChunk, maxChunk, strict } = policy;
  const expansion = autoExpand
    ? `expands by ${bits(autoExpand.byBits)} at ${autoExpand.atPercent} %${autoExpand.maxSuffixBits % WIDEST > 0 ? ` up to 2${superscript(autoExpand.maxSuffixBits)}` : ""}`
    : "";
  return [
    strict && "strict",
    expansion,
    cap && `at most ${format.whole(BigInt(cap))}`,
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
