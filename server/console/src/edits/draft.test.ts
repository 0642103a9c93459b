import { create } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import {
  EditSuggestionSchema,
  Region_Kind,
  type RegionChange,
  RegionChangeSchema,
  RegionRequestSchema,
  RegionSchema,
} from "../gen/kent/v1/regions_pb.ts";
import { differences, policyOf, stateOf } from "./describe.ts";
import { type Draft, draftOf, draftOfSuggestion, toCall } from "./draft.ts";
import { opsFor } from "./intent.ts";

const region = create(RegionSchema, {
  name: "spaces/default/regions/orders",
  prefix: "101101",
  zoneBits: 18,
  suffixBits: 40,
  kind: Region_Kind.OPEN,
  reserved: "9007199254740993",
  capacity: "1099511627776",
});
const intent = { space: "default", bits: 64, region } as const;
const changed = (draft: Draft, over: Partial<Draft>) => toCall({ ...draft, ...over });
const problems = (draft: Draft, over: Partial<Draft>) => {
  const checked = changed(draft, over);
  return checked.ok ? [] : Object.keys(checked.problems);
};

describe("drafts", () => {
  test("ok_forms_begin_with_something_that_makes_sense", () => {
    expect(draftOf({ op: "create", space: "s", bits: 64, prefix: "1".repeat(20) })).toMatchObject({ suffix: "36" });
    expect(draftOf({ op: "create", space: "s", bits: 8 })).toMatchObject({ suffix: "8", prefix: "" });
    expect(draftOf({ op: "split", ...intent })).toMatchObject({ region: "orders", by: "1", parts: [{ suffix: "20" }] });
    expect(toCall(draftOf({ op: "expand", ...intent })).ok).toBe(true);
    expect(toCall(draftOf({ op: "undo", space: "default", bits: 64 })).ok).toBe(true);
  });

  test("ok_the_form_of_a_request_asks_for_the_same_region", () => {
    const request = create(RegionRequestSchema, {
      name: "spaces/default/requests/7",
      regionId: "returns",
      suffixBits: 32,
      zoneBits: 0,
    });
    const draft = draftOf({ op: "create", space: "default", bits: 64, request });
    expect(draft).toMatchObject({ region: "returns", suffix: "32", zone: "0", answers: "spaces/default/requests/7" });
    expect(toCall(draft).ok).toBe(true);
  });

  test("err_each_bad_field_is_named", () => {
    const create = draftOf({ op: "create", space: "s", bits: 64 });
    expect(problems(create, { region: "a/b", suffix: "x", prefix: "12" })).toEqual(["suffix", "region", "prefix"]);
    expect(problems(create, { region: "a", suffix: "40" })).toEqual([]);
    expect(problems(create, { region: "a", suffix: "129" })).toEqual(["suffix"]);
    expect(problems(draftOf({ op: "expand", ...intent }), { by: "0" })).toEqual(["by"]);
    expect(problems(draftOf({ op: "split", ...intent }), {})).toEqual(["parts.0.id"]);
    expect(problems(draftOf({ op: "set", ...intent }), { cap: "many", next: "1e9" })).toEqual(["next", "cap"]);
    expect(problems(draftOf({ op: "set", ...intent }), { next: "9_007_199_254_740_993" })).toEqual([]);
    expect(problems(draftOf({ op: "set", ...intent }), { step: "1", offset: "x" })).toEqual(["step", "offset"]);
    expect(problems(draftOf({ op: "set", ...intent }), { step: "2" })).toEqual([]);
    expect(problems(draftOf({ op: "set", ...intent }), {})).toEqual(["owner"]);
  });

  test("ok_a_suggestion_becomes_a_form", () => {
    const before = draftOf({ op: "expand", ...intent });
    const suggestion = create(EditSuggestionSchema, {
      rule: "ZONE_TOO_SMALL",
      edit: { case: "expand", value: { name: region.name, byBits: 18 } },
    });
    expect(draftOfSuggestion(suggestion, before)).toMatchObject({ op: "expand", region: "orders", by: "18" });
    expect(draftOfSuggestion(create(EditSuggestionSchema, {}), before)).toBeUndefined();
  });

  test("ok_only_edits_that_make_sense_are_offered", () => {
    expect(opsFor(region)).toEqual(["expand", "shrink", "split", "subdivide", "seal", "rename", "set"]);
    const fresh = create(RegionSchema, { ...region, reserved: "0", zoneBits: 0, sealed: true });
    expect(opsFor(fresh)).toEqual(["shrink", "delegate", "unseal", "rename", "set", "delete"]);
  });

  test("ok_differences_name_what_changed", () => {
    const change: RegionChange = create(RegionChangeSchema, {
      before: region,
      after: { ...region, zoneBits: 14, suffixBits: 44, capacity: "17592186044416", sealed: true },
    });
    expect(differences(change)).toEqual([
      { property: "zone", before: "18 bits", after: "14 bits" },
      { property: "suffix", before: "40 bits", after: "44 bits" },
      { property: "capacity", before: "2⁴⁰", after: "2⁴⁴" },
      { property: "state", before: "open", after: "open, sealed" },
    ]);
    expect(stateOf(region)).toBe("open");
    expect(
      policyOf({ policy: create(RegionSchema, { policy: { strict: true, cap: "9007199254740993" } }).policy }),
    ).toBe("strict, at most 9,007,199,254,740,993");
  });
});
