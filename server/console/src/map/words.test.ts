import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { MapCell_Kind, MapCellSchema, MapRegionSchema, Region_Kind } from "../gen/kent/v1/regions_pb.ts";
import { brief, isClosed, lineOf, sizeOf, stepsTo, titleOf, untilFull } from "./words.ts";

const cell = (init: MessageInitShape<typeof MapCellSchema>) => create(MapCellSchema, { prefix: "101", ...init });
const region = {
  name: "spaces/default/regions/orders",
  prefix: "101",
  zoneBits: 21,
  suffixBits: 40,
  kind: Region_Kind.OPEN,
};

describe("words", () => {
  test.each([
    [cell({ kinds: [MapCell_Kind.FREE] }), "free, prefix 101, 2⁶¹"],
    [cell({ kinds: [MapCell_Kind.ZONE], inside: "spaces/default/regions/orders" }), "zone of orders, prefix 101, 2⁶¹"],
    [cell({ regionCount: 1_000_000n, fill: 0.5 }), "1,000,000 regions, prefix 101, 2⁶¹, 50% issued"],
    [cell({ regionCount: 1n, fill: 0 }), "1 region, prefix 101, 2⁶¹, 0% issued"],
    [
      cell({ regionCount: 3n, kinds: [MapCell_Kind.SEALED, MapCell_Kind.STRICT] }),
      "3 regions, prefix 101, 2⁶¹, some sealed, some strict",
    ],
    [
      cell({ region, regionCount: 1n, fill: 0.25, kinds: [MapCell_Kind.REGION, MapCell_Kind.SEALED] }),
      "orders, prefix 101, zone 21, suffix 40, 25% issued, 0/s, no grants now, sealed",
    ],
    [
      cell({ region: { ...region, kind: Region_Kind.PARTIAL }, kinds: [MapCell_Kind.DELEGATED] }),
      "orders, prefix 101, zone 21, suffix 40, 0/s, no grants now, partial, delegated",
    ],
  ])("ok_a_cell_in_one_line_%#", (cell, line) => expect(lineOf(cell, 64)).toBe(line));

  test("ok_a_line_tells_how_fast_a_region_fills", () => {
    const busy = { ...region, rate: 5, fullInSeconds: 86_400 * 3 };
    const one = cell({ region: busy, regionCount: 1n, capacity: "4096", issued: "3000", fill: 0.7324 });
    const start = "orders, prefix 101, zone 21, suffix 40, capacity 4,096, 3,000 (73.2%) issued";
    expect(lineOf(one, 64)).toBe(`${start}, 5/s, full in 3 days`);
    expect(lineOf(one, 64, true)).toBe(start);
    const full = cell({ region: { ...busy, fullInSeconds: 0 }, regionCount: 1n, capacity: "4096", issued: "4096" });
    expect(lineOf(full, 64)).toMatch(/capacity 4,096, 4,096 issued, 5\/s, full$/);
  });

  test("ok_long_prefixes_lose_their_middle", () => {
    expect(brief("1".repeat(28))).toHaveLength(28);
    expect(brief(`${"1".repeat(60)}0`)).toBe("111111111111111111…11111110");
    expect(sizeOf("", 128)).toBe("2¹²⁸");
    expect(titleOf(cell({}))).toBe("free");
  });

  test("ok_the_path_has_the_names_of_regions", () => {
    const world = create(MapRegionSchema, { ...region, name: "spaces/default/regions/world", prefix: "11" });
    const path = (root: string, around = [world], cells = [cell({ prefix: root })], shown = root) =>
      stepsTo(root, { root: shown, around, cells }).map(({ name }) => name);
    expect(path("", [], [cell({ prefix: "", region: { ...region, prefix: "" } })])).toEqual(["whole space"]);
    expect(path("101", [], [cell({ region })])).toEqual(["whole space", "orders"]);
    expect(path("1101")).toEqual(["whole space", "world", "1101"]);
    // A partial region is also the region of its first cell, and a closed region only of what is inside it.
    const inside = { inside: world.name };
    const halves = [cell({ prefix: "110", region: world, ...inside }), cell({ prefix: "111", region, ...inside })];
    expect(path("11", [], halves)).toEqual(["whole space", "world"]);
    expect(path("11", [], [cell({ prefix: "110", ...inside }), cell({ prefix: "111", ...inside })])).toContain("world");
    expect(path("110", [world], [cell({ prefix: "110", region: world, ...inside })])).toEqual([
      "whole space",
      "world",
      "110",
    ]);
    // The map of the prefix is still loading.
    expect(path("101", [], [cell({ region })], "")).toEqual(["whole space", "101"]);
    expect(stepsTo("101", undefined).map(({ prefix }) => prefix)).toEqual(["", "101"]);
  });

  test("ok_time_until_a_region_is_full", () => {
    expect(untilFull({})).toBe("no grants now");
    expect(untilFull({ fullInSeconds: 0 })).toBe("full");
    expect(untilFull({ fullInSeconds: 86_400 * 3 })).toBe("3 days");
    expect(isClosed({ kind: Region_Kind.CLOSED })).toBe(true);
  });
});
