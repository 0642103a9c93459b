import { describe, expect, test } from "vitest";
import { depthScale, holderOf, layOut, nodeAt, type Plan, suffixRect } from "./layout.ts";
import { type Cell, toTree, weightOf } from "./tree.ts";

const cells = (...prefixes: string[]): Cell[] => prefixes.map((prefix) => ({ prefix }));
const plan = (over: Partial<Plan<Cell>>): Plan<Cell> => ({
  cells: cells("0", "10", "110", "111"),
  root: "",
  bits: 8,
  view: "icicle",
  scale: "width",
  width: 800,
  height: 400,
  ...over,
});

/** The rectangle of a prefix in the unit square, computed bit by bit from the definition of Morton order. */
function morton(prefix: string) {
  const at = { x: 0, y: 0, width: 1, height: 1 };
  [...prefix].forEach((bit, index) => {
    const [corner, side] = index % 2 === 0 ? (["x", "width"] as const) : (["y", "height"] as const);
    at[side] /= 2;
    if (bit === "1") at[corner] += at[side];
  });
  return at;
}

/** Returns random cells that tile a space, generated from a seed. */
function tiling(seed: number): Cell[] {
  let state = seed;
  const random = () => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return state / 2147483648;
  };
  const divide = (prefix: string): Cell[] =>
    prefix.length < 12 && random() < 0.75 ? [...divide(`${prefix}0`), ...divide(`${prefix}1`)] : [{ prefix }];
  return divide("");
}

describe("layout", () => {
  test("ok_an_icicle_is_as_wide_as_prefixes", () => {
    const placed = layOut(plan({}));
    const leaves = placed.filter((node) => node.cell);
    expect(leaves.map(({ prefix, x, width }) => [prefix, x, width])).toEqual([
      ["0", 0, 400],
      ["10", 400, 200],
      ["110", 600, 100],
      ["111", 700, 100],
    ]);
    expect(leaves.map(({ y, height }) => [y, y + height])).toEqual([
      [0, 400],
      [50, 400],
      [100, 400],
      [100, 400],
    ]);
    expect(placed.find((node) => node.prefix === "11")).toMatchObject({ x: 600, y: 50, width: 200, height: 50 });
  });

  test("ok_a_log_scale_shows_small_prefixes", () => {
    const small = "1".repeat(40);
    const all = Array.from({ length: 40 }, (_, length) => `${"1".repeat(length)}0`);
    const wide = layOut(plan({ cells: cells(...all, small), bits: 64, scale: "width" }));
    const log = layOut(plan({ cells: cells(...all, small), bits: 64, scale: "log" }));
    const widthOf = (placed: typeof wide) => placed.find((node) => node.prefix === small)?.width ?? 0;
    expect(widthOf(wide)).toBeLessThan(1e-6);
    expect(widthOf(log)).toBeGreaterThan(5);
    expect(weightOf("log", 64, 0, 64)).toBe(1);
    expect(weightOf("width", 128, 0, 128)).toBe(2 ** -128);
  });

  test.each(Array.from({ length: 40 }, (_, seed) => seed))(
    "ok_tiling_%i_is_in_morton_order_and_covers_the_plane",
    (seed) => {
      const leaves = layOut(plan({ cells: tiling(seed), bits: 12, view: "morton", width: 1, height: 1 })).filter(
        (node) => node.cell,
      );
      for (const { prefix, x, y, width, height } of leaves) {
        const expected = morton(prefix);
        expect(x).toBeCloseTo(expected.x, 9);
        expect(y).toBeCloseTo(expected.y, 9);
        expect(width).toBeCloseTo(expected.width, 9);
        expect(height).toBeCloseTo(expected.height, 9);
      }
      expect(leaves.reduce((sum, { width, height }) => sum + width * height, 0)).toBeCloseTo(1, 9);
      const icicle = layOut(plan({ cells: tiling(seed), bits: 12, scale: "log" })).filter((node) => node.cell);
      icicle.forEach((node, index) => {
        const before = icicle[index - 1];
        expect(node.x).toBeCloseTo(before ? before.x + before.width : 0, 6);
      });
    },
  );

  test("ok_morton_below_a_prefix_of_odd_length_halves_from_top_to_bottom", () => {
    const placed = layOut(plan({ cells: cells("10", "11"), root: "1", view: "morton" }));
    expect(placed.find((node) => node.prefix === "11")).toMatchObject({ x: 0, y: 200, width: 800, height: 200 });
  });

  test("ok_points_find_the_innermost_node", () => {
    const placed = layOut(plan({}));
    expect(nodeAt(placed, 10, 10)?.prefix).toBe("0");
    expect(nodeAt(placed, 650, 60)?.prefix).toBe("11");
    expect(nodeAt(placed, 650, 390)?.prefix).toBe("110");
    expect(nodeAt(placed, 900, 10)).toBeUndefined();
  });

  test("ok_a_magnified_window_finds_its_prefix", () => {
    const placed = layOut(plan({}));
    expect(holderOf(placed, "icicle", { x: 0, y: 0, width: 800, height: 400 })?.prefix).toBe("");
    expect(holderOf(placed, "icicle", { x: 610, y: 0, width: 150, height: 400 })?.prefix).toBe("11");
    expect(holderOf(placed, "icicle", { x: 390, y: 0, width: 20, height: 400 })?.prefix).toBe("");
  });

  test("ok_the_suffix_has_its_share_of_a_region", () => {
    const rect = { x: 0, y: 0, width: 64, height: 64 };
    expect(suffixRect(rect, "width", 2, 10)).toEqual({ x: 0, y: 0, width: 32, height: 32 });
    expect(suffixRect(rect, "width", 0, 10)).toEqual(rect);
    expect(suffixRect(rect, "width", 100, 10)).toMatchObject({ width: 2, height: 2 });
    expect(suffixRect(rect, "log", 3, 0).width).toBe(32);
  });

  test("err_cells_that_do_not_tile_the_prefix", () => {
    expect(() => toTree(cells("0", "10"), "")).toThrow("end before");
    expect(depthScale({ root: "", bits: 64, height: 640 })(10)).toBe(100);
  });
});
