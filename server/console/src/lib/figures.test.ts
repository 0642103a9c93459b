import { create } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { FiguresOfSecondSchema } from "../gen/kent/v1/admin_pb.ts";
import { axisWidth, bySource, isolated, joined, latest, ofDaemon, SECONDS, timesOf } from "./figures.ts";

const second = (at: number, grants: Record<string, bigint> = {}, p99?: number) =>
  create(FiguresOfSecondSchema, {
    unixSeconds: BigInt(at),
    replicas: [
      { answering: true, ...(p99 === undefined ? {} : { p99Micros: p99 }) },
      { answering: false, p99Micros: 9 },
    ],
    sources: Object.entries(grants).map(([source, count]) => ({ source, grants: count, identifiers: count })),
  });

describe("figures", () => {
  test("ok_seconds_are_joined_once_and_only_the_last_are_kept", () => {
    const all = Array.from({ length: SECONDS + 5 }, (_, at) => second(at));
    expect(timesOf(joined([second(1), second(2)], [second(2), second(3)]))).toEqual([1, 2, 3]);
    expect(joined([], all)).toHaveLength(SECONDS);
    expect(timesOf(joined([second(100)], [second(3), second(4)]))).toEqual([3, 4]);
    expect(joined([second(1)], [])).toHaveLength(1);
  });

  test("ok_sources_beyond_the_busiest_are_summed", () => {
    const seconds = [second(1, { a: 5n, b: 1n, c: 2n }), second(2, { b: 1n })];
    expect(bySource(seconds, 2)).toEqual([
      { name: "a", values: [5, 0] },
      { name: "all others", values: [3, 1] },
    ]);
    expect(bySource(seconds, 3).map(({ name }) => name)).toEqual(["a", "b", "c"]);
    expect(bySource([], 3)).toEqual([]);
  });

  test("ok_seconds_without_grants_are_gaps", () => {
    const line = ofDaemon([second(1, {}, 5), second(2)], "p99", ({ p99Micros }) => p99Micros);
    expect(line.values).toEqual([5, null]);
    expect(latest(line)).toBe(5);
    expect(latest({ name: "", values: [] })).toBeUndefined();
  });
});

test("ok_an_axis_is_as_wide_as_its_widest_label", () => {
  const widthOf = (label: string) => label.length * 7.5;
  expect(axisWidth(["0 μs", "100 μs"], 64, widthOf)).toBe(64);
  expect(axisWidth(["0 μs", "100 millis."], 64, widthOf)).toBe(83);
  expect(axisWidth([], 64, widthOf)).toBe(64);
});

test("ok_values_without_a_neighbor_get_points", () => {
  expect(isolated([1, null, 2, 3, null, 4])).toEqual([0, 5]);
  expect(isolated([])).toEqual([]);
});
