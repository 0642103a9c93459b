// The edits that the console offers.
import type { Region, RegionRequest } from "../gen/kent/v1/regions_pb.ts";
import { Region_Kind } from "../gen/kent/v1/regions_pb.ts";

/** A kind of edit. */
export type Op =
  | "create"
  | "expand"
  | "shrink"
  | "split"
  | "subdivide"
  | "delegate"
  | "seal"
  | "unseal"
  | "rename"
  | "set"
  | "delete"
  | "undo";

/** An edit that the user wants to make, for which the dialog opens. */
export type EditIntent =
  | { op: "create"; space: string; bits: number; prefix?: string; request?: RegionRequest }
  | { op: "undo"; space: string; bits: number }
  | { op: Exclude<Op, "create" | "undo">; space: string; bits: number; region: Region };

/** The name and the effect of each edit. */
export const OPS: Record<Op, { title: string; does: string }> = {
  create: { title: "Create", does: "A new region takes a free prefix." },
  expand: { title: "Expand", does: "Zone bits become suffix bits: the region can issue more identifiers." },
  shrink: { title: "Shrink", does: "Suffix bits become zone bits, if no issued identifier needs them." },
  split: {
    title: "Split",
    does: "Zone bits become prefix bits. The region keeps the all-zero extension; new regions can take the others.",
  },
  subdivide: { title: "Subdivide", does: "New regions inside this one take extensions of its prefix." },
  delegate: { title: "Delegate", does: "The suffixes become a space with its own table." },
  seal: { title: "Seal", does: "Nothing is granted from the region or anything inside it until it is unsealed." },
  unseal: { title: "Unseal", does: "Grants resume, unless a region around this one is sealed." },
  rename: { title: "Rename", does: "The number of the region, its identifiers and its history stay the same." },
  set: { title: "Set", does: "Changes owner, description and policy." },
  delete: {
    title: "Delete",
    does: "Removes a region from which nothing was ever issued. Its name and its prefix become free.",
  },
  undo: { title: "Undo", does: "Reverts the last edit of the table by another edit." },
};

/** The edits that may be possible for a region. The daemon decides. */
export function opsFor(region: Region): Exclude<Op, "create" | "undo">[] {
  const has = {
    zone: region.zoneBits > 0,
    subregions: region.subregionBits > 0,
    issued: region.reserved !== "" && region.reserved !== "0",
    delegated: region.delegatedSpace !== "",
    inside: region.parentNumber !== 0n,
  };
  const closed = region.kind === Region_Kind.CLOSED;
  const possible: [Exclude<Op, "create" | "undo">, boolean][] = [
    ["expand", has.zone && !closed && !has.delegated],
    ["shrink", region.suffixBits > 0 && !closed && !has.delegated],
    ["split", has.zone && !has.inside && !has.subregions],
    ["subdivide", (has.zone || has.subregions) && !has.delegated],
    ["delegate", !has.issued && !has.subregions && !has.delegated && region.suffixBits > 0],
    [region.sealed ? "unseal" : "seal", true],
    ["rename", true],
    ["set", true],
    ["delete", !has.issued && !has.subregions && !has.delegated],
  ];
  return possible.filter(([, can]) => can).map(([op]) => op);
}

/** Whether a policy would have an effect on a region: a closed or delegated region grants nothing itself. */
export function takesPolicy(region: Region): boolean {
  return region.kind !== Region_Kind.CLOSED && region.delegatedSpace === "";
}
