import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { Region_Kind, RegionSchema } from "../gen/kent/v1/regions_pb.ts";
import { opsFor, takesPolicy } from "./intent.ts";

const region = (over: MessageInitShape<typeof RegionSchema> = {}) =>
  create(RegionSchema, {
    name: "spaces/default/regions/bolts",
    zoneBits: 8,
    suffixBits: 20,
    kind: Region_Kind.OPEN,
    ...over,
  });
const delegated = region({ delegatedSpace: "spaces/default/bolts" });

describe("the edits of a region", () => {
  test("ok_an_unused_open_region_has_all_edits", () => {
    expect(opsFor(region())).toEqual([
      "expand",
      "shrink",
      "split",
      "subdivide",
      "delegate",
      "seal",
      "rename",
      "set",
      "delete",
    ]);
  });

  test("ok_a_delegated_region_has_no_edits_that_are_always_refused", () => {
    expect(opsFor(delegated)).toEqual(["split", "seal", "rename", "set"]);
  });

  test("ok_only_a_region_that_grants_takes_a_policy", () => {
    expect(takesPolicy(region())).toBe(true);
    expect(takesPolicy(delegated)).toBe(false);
    expect(takesPolicy(region({ kind: Region_Kind.CLOSED }))).toBe(false);
  });
});
