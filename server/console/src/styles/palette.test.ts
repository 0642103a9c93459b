import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { contrast, difference, parseColor, type Sight, seen } from "../lib/vision.ts";

const css = readFileSync(new URL("./tokens.css", import.meta.url), "utf8");
const tokens = new Map(
  [...css.matchAll(/--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)/g)].map(([, name = "", light = "", dark = ""]) => [
    name,
    { light, dark },
  ]),
);

describe.each(["light", "dark"] as const)("the palette, %s", (theme) => {
  const color = (name: string) => parseColor(tokens.get(name)?.[theme] ?? "missing");

  test.each([
    ...["text", "quiet", "link", "sealed", "delegated", "good", "warn"].flatMap((name) =>
      ["page", "surface", "raised"].map((below) => [name, below] as const),
    ),
    ["on-link", "link"] as const,
    ["on-prefix", "prefix"] as const,
    ["on-zone", "zone"] as const,
    ["on-suffix", "suffix"] as const,
    ["on-issued", "issued"] as const,
  ])("ok_text_%s_is_readable_on_%s", (above, below) => {
    expect(contrast(color(above), color(below))).toBeGreaterThanOrEqual(4.5);
  });

  test.each(["prefix", "issued", "edge", "line-1", "line-2", "line-3", "line-4"])(
    "ok_%s_is_visible_on_the_page",
    (name) => {
      expect(contrast(color(name), color("page"))).toBeGreaterThanOrEqual(3);
    },
  );

  const meanings = ["prefix", "zone", "suffix", "issued", "free"];
  const lines = ["line-1", "line-2", "line-3", "line-4"];
  test.each(["full", "protanopia", "deuteranopia", "tritanopia"] as Sight[])("ok_meanings_differ_with_%s", (sight) => {
    const problems: string[] = [];
    const compare = (names: string[], least: number) => {
      names.forEach((a, index) => {
        for (const b of names.slice(index + 1)) {
          const by = difference(seen(color(a), sight), seen(color(b), sight));
          if (by < least) problems.push(`${a} and ${b}: ${by.toFixed(3)} < ${least}`);
        }
      });
    };
    compare(meanings, 0.1);
    compare(lines, 0.06);
    compare(["page", "surface", "edge"], 0.015);
    expect(problems).toEqual([]);
  });
});
