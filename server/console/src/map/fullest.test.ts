import { create } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { type MapCell, MapCellSchema } from "../gen/kent/v1/regions_pb.ts";
import { findRegions, mostUrgent, succeeded } from "./fullest.ts";

const region = (name: string, prefix: string, fill: number, fullInSeconds?: number) =>
  create(MapCellSchema, {
    prefix,
    regionCount: 1n,
    capacity: "1024",
    fill,
    region: { name, prefix, ...(fullInSeconds === undefined ? {} : { fullInSeconds }) },
  });
const merged = (prefix: string, fill: number) =>
  create(MapCellSchema, { prefix, regionCount: 9n, capacity: "9216", fill });

/** The map of a prefix in a space whose parts 0 and 10 have several regions. */
const MAPS: Record<string, MapCell[]> = {
  "": [merged("0", 0.1), merged("10", 0.4), region("c", "11", 0.5)],
  "0": [region("a", "00", 0.2)],
  "10": [region("b", "100", 0.95), create(MapCellSchema, { prefix: "101", capacity: "0" })],
};

describe("fullest", () => {
  test.each([
    [0, [""], ["c"], false],
    [1, ["", "10"], ["b", "c"], false],
    [5, ["", "10", "0"], ["b", "c", "a"], true],
  ] as const)("ok_with_%i_more_maps", async (deeper, prefixes, names, isAll) => {
    const asked: string[] = [];
    const ask = async (prefix: string) => {
      asked.push(prefix);
      return MAPS[prefix] ?? [];
    };
    const found = mostUrgent([await findRegions(ask, deeper)], 8);
    expect(asked).toEqual(prefixes);
    expect(found.cells.map(({ region }) => region.name)).toEqual(names);
    expect(found.isAll).toBe(isAll);
  });

  test("ok_the_shortest_time_left_comes_first", async () => {
    const cells = [region("full", "0", 0.9), region("fast", "10", 0.1, 60), region("slow", "11", 0.1, 600)];
    const found = await findRegions(async () => [...cells, create(MapCellSchema, { prefix: "1", capacity: "0" })], 1);
    expect(mostUrgent([found], 2).cells.map(({ region }) => region.name)).toEqual(["fast", "slow"]);
  });

  test("ok_a_user_sees_the_spaces_that_the_user_may_read", async () => {
    const refusal = new Error("lacks the permission read:region:default/*");
    const outcomes = (...found: Promise<string>[]) => Promise.allSettled(found);
    expect(succeeded(await outcomes(Promise.reject(refusal), Promise.resolve("shop")))).toEqual(["shop"]);
    expect(succeeded([])).toEqual([]);
    const refused = await outcomes(Promise.reject(refusal), Promise.reject(new Error("another")));
    expect(() => succeeded(refused)).toThrow(refusal);
  });
});
