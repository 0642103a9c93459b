import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { type Region, Region_Kind, RegionSchema } from "../gen/kent/v1/regions_pb.ts";
import { lookOf, toScene } from "./scene.ts";
import { tile } from "./tiles.fixture.ts";

const region = (name: string, prefix: string, over: MessageInitShape<typeof RegionSchema> = {}): Region =>
  create(RegionSchema, {
    name: `spaces/default/regions/${name}`,
    prefix,
    zoneBits: 2,
    suffixBits: 8 - prefix.length - 2,
    kind: Region_Kind.OPEN,
    capacity: String(2 ** (6 - prefix.length)),
    issued: "1",
    ...over,
  });
const table = [
  region("a", "00", { sealed: true }),
  region("b", "10", { kind: Region_Kind.CLOSED, subregionBits: 1, capacity: "0" }),
  region("c", "101", { delegatedSpace: "spaces/default/c" }),
];

describe("scenes", () => {
  test("ok_cells_tile_a_table", () => {
    const cells = tile(table, "");
    expect(cells.map((cell) => [cell.prefix, lookOf(cell)])).toEqual([
      ["00", "region"],
      ["01", "free"],
      ["100", "zone"],
      ["101", "region"],
      ["11", "free"],
    ]);
    expect(tile(table, "1010").map((cell) => cell.region?.name)).toEqual(["spaces/default/regions/c"]);
    expect(tile([], "").map(lookOf)).toEqual(["free"]);
  });

  test("ok_a_column_has_prefix_zone_and_suffix_as_deep_as_their_bits", () => {
    const scene = toScene({
      cells: tile(table, ""),
      root: "",
      bits: 8,
      view: "icicle",
      scale: "width",
      width: 800,
      height: 80,
    });
    const a = scene.find((item) => item.prefix === "00");
    expect(a?.bands.map(({ look, y, height }) => [look, y, height])).toEqual([
      ["prefix", 10, 10],
      ["zone", 20, 20],
      ["suffix", 40, 40],
    ]);
    expect(a).toMatchObject({ sealed: true, delegated: false, label: "a" });
    expect(scene.find((item) => item.prefix === "1")?.bands[0]?.look).toBe("prefix");
    expect(scene.find((item) => item.prefix === "101")?.delegated).toBe(true);
  });

  test("ok_a_field_has_its_suffix_in_a_corner_of_its_zone", () => {
    const scene = toScene({
      cells: tile(table, ""),
      root: "",
      bits: 8,
      view: "morton",
      scale: "width",
      width: 80,
      height: 80,
    });
    expect(scene.find((item) => item.prefix === "00")?.bands).toMatchObject([
      { look: "zone", width: 40, height: 40 },
      { look: "suffix", width: 20, height: 20 },
    ]);
  });
});
