import { create } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { RegionSchema } from "../gen/kent/v1/regions_pb.ts";
import { mostUrgent, succeeded } from "./fullest.ts";

const region = (name: string, issued: string, fullInSeconds?: number, cap = "") =>
  create(RegionSchema, {
    name,
    issued,
    capacity: "1024",
    policy: { cap },
    ...(fullInSeconds === undefined ? {} : { fullInSeconds }),
  });

describe("fullest", () => {
  test("ok_the_shortest_time_left_comes_first_and_then_the_largest_share", () => {
    const regions = [
      region("quiet", "512"),
      region("slow", "1", 600),
      region("in centuries", "1", 1e10),
      region("fuller", "800"),
      region("full", "1024", 0),
      region("fast", "1", 60),
      region("capped", "100", 0, "100"),
    ];
    const found = mostUrgent(regions, 5);
    expect(found.map(({ region }) => region.name)).toEqual(["full", "capped", "fast", "slow", "fuller"]);
    expect(found.map(({ share }) => share)).toEqual([1, 1, 1 / 1024, 1 / 1024, 800 / 1024]);
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
