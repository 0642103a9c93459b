import { expect, test } from "vitest";
import { fit } from "./paint.ts";

test("ok_names_that_do_not_fit_end_with_an_ellipsis", () => {
  const measure = (text: string) => [...text].length;
  for (const [text, width, expected] of [
    ["orders", 6, "orders"],
    ["orders", 5, "orde…"],
    ["orders", 2, "o…"],
    ["orders", 0, "o…"],
  ] as const) {
    expect(fit(text, width, measure)).toBe(expected);
  }
});
