import { describe, expect, test } from "vitest";
import { cellAt, nearer, pickAt } from "./pick.ts";

describe("pick", () => {
  test.each([
    ["101101", "", "101101"],
    ["101101", "101", "101101"],
    ["101101", "101101", "101101"],
    ["101101", "10110101", "101101"],
    ["101101", "11", undefined],
    [undefined, "101", undefined],
  ])("ok_%s_at_%s_is_%s", (picked, root, expected) => expect(pickAt(picked, root)).toBe(expected));

  test("ok_a_merged_cell_holds_the_pick", () => {
    const cells = ["0", "10", "110", "111"].map((prefix) => ({ prefix }));
    const held = (picked?: string) => cellAt(cells, "", picked)?.prefix;
    expect([held("110"), held("10110"), held()]).toEqual(["110", "10", undefined]);
  });

  test("ok_the_first_part_of_a_split_pick_is_held", () => {
    const cells = ["110", "111"].map((prefix) => ({ prefix }));
    const held = (root: string, picked: string) => cellAt(cells, root, picked)?.prefix;
    expect([held("1", "11"), held("", "1"), held("1", "1"), held("11", "1"), held("1", "10")]).toEqual([
      "110",
      "110",
      undefined,
      undefined,
      undefined,
    ]);
  });

  test("ok_a_zoom_goes_bit_by_bit_to_the_pick", () => {
    expect([nearer("101", ""), nearer("101", "1"), nearer("101", "10")]).toEqual(["1", "10", "101"]);
    expect([nearer("101", "101"), nearer("101", "11"), nearer(undefined, "")]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });
});
